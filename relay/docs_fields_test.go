package relay_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"xdsrelay/relay/config"
	"xdsrelay/relay/events"
)

// fieldInText is a path of the configuration in a text: a section and a key, in code.
var fieldInText = regexp.MustCompile("`([a-z_]+(?:\\.[a-z_]+)+)`")

// TestFieldsOfPages: the fields of the configuration that pages name exist.
func TestFieldsOfPages(t *testing.T) {
	readsFiles(t)
	known, sections := make(map[string]bool), make(map[string]bool)
	for _, anchor := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(config.Doc(), -1) {
		path := ""
		for part := range strings.SplitSeq(anchor[1], ".") {
			path = strings.TrimPrefix(path+"."+part, ".")
			known[path] = true
		}
		section, _, _ := strings.Cut(anchor[1], ".")
		sections[section] = true
	}
	if len(known) < 100 {
		t.Fatalf("the reference has %d fields: has its form changed?", len(known))
	}
	found := 0
	err := fs.WalkDir(os.DirFS("../docs"), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".md") {
			return err
		}
		if name == "how-to/migrate-from-xds-relay.md" { // fields of xds-relay
			return nil
		}
		text, err := os.ReadFile("../docs/" + name)
		if err != nil {
			return err
		}
		for _, m := range fieldInText.FindAllStringSubmatch(string(text), -1) {
			section, _, _ := strings.Cut(m[1], ".")
			if _, event := events.Of(events.Kind(m[1])); event || section == "node" { // node is also a variable of rules
				continue
			}
			if sections[section] {
				if found++; !known[m[1]] {
					t.Errorf("docs/%s: the configuration has no field %s", name, m[1])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 100 {
		t.Errorf("pages name %d fields: has their form changed?", found)
	}
}
