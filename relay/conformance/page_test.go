package conformance

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// complete says that the protocol is implemented as a whole. While it is false,
// rules without a test and a page that is out of date are logged only, so that
// the rules can be built one after the other; with true, both fail the test.
// Once it is true this constant, and the branch that asks for it, go.
const complete = false

var update = flag.Bool("update", false, "write docs/conformance.md instead of comparing it")

// page is where the page lies.
const page = "../../docs/conformance.md"

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
	report := t.Errorf
	if !complete {
		report = t.Logf
	}
	if missing := h.missing(); len(missing) > 0 {
		report("%d of %d rules have no test: %s", len(missing), len(known), strings.Join(missing, " "))
	}
	text := h.render()
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if was, err := os.ReadFile(page); err != nil {
		report("%v", err)
	} else if string(was) != text {
		report("docs/conformance.md is out of date: run go test ./relay/conformance -update")
	}
}
