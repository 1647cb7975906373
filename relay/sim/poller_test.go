package sim

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestPolls: polling clients follow a tier, also from node to node, and new ones come.
func TestPolls(t *testing.T) {
	plan, err := Parse(`seed=9 nodes=3 keys=1 clients=4 polls=4 size=3 sotw=false guard=false kept=redis length=100s
20s 0s change key0 3
60s 0s change key0 3
80s 0s move 100
90s 0s arrive key0 1
`)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := once(t, Config{Token: tokenFile(t), Log: &log}, plan)
	if len(r.Found) > 0 {
		t.Fatalf("%q\n%s", r.Found, r.Detail)
	}
	nodes := make(map[string]bool)
	got := make(map[string]int)
	for line := range strings.Lines(log.String()) {
		for _, name := range []string{"poll-0", "poll-1", "poll-2", "poll-3", "poll-4"} {
			if !strings.Contains(line, " client="+name+" ") {
				continue
			}
			if _, by, ok := strings.Cut(line, "client-open node="); ok && name == "poll-0" {
				nodes[strings.Fields(by)[0]] = true
			}
			if strings.Contains(line, "client-got") {
				got[name]++
			}
		}
	}
	if len(nodes) < 2 || len(got) < 5 || got["poll-0"] < 2 {
		t.Errorf("poll-0 was at %v; answers with content: %v", slices.Sorted(maps.Keys(nodes)), got)
	}
}
