package admin

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the copy of the runbook again")

// TestRunbookCopy: the page has the runbook of the documentation. `make pages` copies it.
func TestRunbookCopy(t *testing.T) {
	const from, to = "../../docs/operate/runbook.md", "ui/runbook.md"
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if copied, err := os.ReadFile(to); err != nil || !bytes.Equal(copied, text) {
		t.Errorf("%s differs from %s; run make pages", to, from)
	}
}
