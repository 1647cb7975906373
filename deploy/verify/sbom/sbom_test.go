package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// program is what `make build` has built.
const program = "../../../bin/xdsrelay"

// TestList: the list of the real program reads back strictly, names each module that was
// linked once, with its checksum in go.sum, and hangs together.
func TestList(t *testing.T) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	var text bytes.Buffer
	if err := write(&text, program, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	var list cdx.BOM
	dec := json.NewDecoder(bytes.NewReader(text.Bytes()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		t.Fatal(err)
	}
	if list.BOMFormat != "CycloneDX" || list.SpecVersion != cdx.SpecVersion1_6 || list.Version != 1 {
		t.Errorf("format %s, %v, %d", list.BOMFormat, list.SpecVersion, list.Version)
	}
	if c := list.Metadata.Component; c.Name != "xdsrelay" || c.Version != "v1.2.3" || c.Type != cdx.ComponentTypeApplication {
		t.Errorf("it is of %v", c)
	}
	sums, err := os.ReadFile("../../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	refs := map[string]bool{}
	for _, c := range *list.Components {
		if refs[c.BOMRef] || c.Version == "" || !regexp.MustCompile(`^pkg:golang/[^@ ]+@[^@ ]+$`).MatchString(c.PackageURL) {
			t.Errorf("component %+v", c)
		}
		refs[c.BOMRef] = true
		if c.Name == "std" {
			continue
		}
		if !strings.Contains(string(sums), c.Name+" "+c.Version+" h1:") || c.Hashes == nil || len((*c.Hashes)[0].Value) != 64 {
			t.Errorf("%s %s is not in go.sum, or has no checksum", c.Name, c.Version)
		}
	}
	if len(refs) != len(info.Deps)+1 || len(refs) < 20 {
		t.Errorf("it names %d modules, and %d were linked", len(refs)-1, len(info.Deps))
	}
	needed := (*list.Dependencies)[0]
	if needed.Ref != list.Metadata.Component.BOMRef || len(*needed.Dependencies) != len(refs) {
		t.Errorf("%s needs %d modules", needed.Ref, len(*needed.Dependencies))
	}
	for _, ref := range *needed.Dependencies {
		if !refs[ref] {
			t.Errorf("%s is needed and not listed", ref)
		}
	}
}

// TestMistakes: what is no Go program has no list.
func TestMistakes(t *testing.T) {
	if err := write(io.Discard, "sbom_test.go", ""); err == nil {
		t.Error("a text has a list")
	}
	if _, err := describe(&debug.BuildInfo{}); err == nil {
		t.Error("a program without a module has a list")
	}
	bad := &debug.BuildInfo{Main: debug.Module{Path: "m"}, Deps: []*debug.Module{{Path: "a", Version: "v1", Sum: "h1:short"}}}
	if _, err := describe(bad); err == nil {
		t.Error("a checksum that is none is taken")
	}
}
