package ops

import (
	"os"
	"strings"
	"testing"
)

// TestRunbookEntries holds that each warning links to an entry that exists.
func TestRunbookEntries(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := []string{runbookDown, runbookRedis, runbookClock, runbookAllKeys}
	for _, entry := range runbook {
		entries = append(entries, entry)
	}
	for _, entry := range entries {
		if !strings.Contains(string(text), "\n### "+entry+"\n") {
			t.Errorf("the runbook has no entry %s", entry)
		}
	}
	all := withRunbook([]Warning{{Kind: "config", Level: levelError}, {Kind: "config", Level: levelWarning}, {Kind: "redis", Runbook: runbookAllKeys}, {Kind: "node"}})
	if all[0].Runbook == "" || all[1].Runbook != "" || all[2].Runbook != runbookAllKeys || all[3].Runbook != "" {
		t.Errorf("entries of %+v", all)
	}
}
