package conformance

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/internals/conformance.md instead of comparing it")

// page is where the page lies.
const page = "../../docs/internals/conformance.md"

// TestPage holds that every rule has a test, and that the page says so. With
// -update it writes the page.
func TestPage(t *testing.T) {
	sections := catalog(t)
	known := ids(sections)
	h := &house{
		sections: sections, notes: entries(t, "notes.txt"), differences: entries(t, "differences.txt"),
		tests: goTests(t, known), scripts: scripts(t, "testdata"),
	}
	for _, wrong := range h.unknown() {
		t.Error(wrong)
	}
	if missing := h.missing(); len(missing) > 0 {
		t.Errorf("%d of %d rules have no test: %s", len(missing), len(known), strings.Join(missing, " "))
	}
	text := h.render()
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if was, err := os.ReadFile(page); err != nil {
		t.Errorf("%v", err)
	} else if string(was) != text {
		t.Errorf("docs/internals/conformance.md is out of date: run go test ./relay/conformance -update")
	}
}
