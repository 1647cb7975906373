package relay_test

import (
	"errors"
	"os"
	"path/filepath"
	gotype "reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"xdsrelay/relay/config"
)

var yamlForm = regexp.MustCompile("(?s)```yaml\n(.*?\n)```")

// TestConfigurationsOfPages: what the documents show as a configuration of xdsrelay is
// one: decoded strictly and checked, except for files that it names.
func TestConfigurationsOfPages(t *testing.T) {
	var sections []string
	for f := range gotype.TypeFor[config.Config]().Fields() {
		sections = append(sections, f.Tag.Get("yaml"))
	}
	found := 0
	for file := range pages(t) {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range yamlForm.FindAllSubmatchIndex(text, -1) {
			block, line := string(text[m[2]:m[3]]), 1+strings.Count(string(text[:m[2]]), "\n")
			if !slices.Contains(sections, firstKey(block)) {
				continue // Kubernetes, Prometheus, a bootstrap
			}
			found++
			for _, p := range mistakes(block) {
				t.Errorf("%s:%d: %s", file, line+p.Line-1, p)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d configurations were found: has the form changed?", found)
	}
}

// firstKey is the name of the first field of a YAML text.
func firstKey(block string) string {
	for line := range strings.Lines(block) {
		if name, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
			return name
		}
	}
	return ""
}

func mistakes(block string) []config.Problem {
	_, err := config.Load(config.Input{File: "the block", Data: []byte(block), WithoutUpstream: true})
	wrong, ok := errors.AsType[*config.Error](err)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(wrong.Problems, func(p config.Problem) bool {
		return strings.Contains(p.Message, "no such file")
	})
}
