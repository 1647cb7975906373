package main

import (
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/rollouts"
)

// TestRolloutTrouble: the status and the history name the clients that have trouble with a revision, and why,
// whatever they write.
func TestRolloutTrouble(t *testing.T) {
	now := time.Now()
	trouble := ops.RolloutTrouble{
		Rejections: []rollouts.Rejection{{Client: "envoy-17\x1b[2J", Type: "type.googleapis.com/envoy.config.cluster.v3.Cluster", Reason: "Unknown field\nof payments", Resources: []string{"payments"}, At: now}},
		Lost:       []rollouts.Unwell{{Client: "envoy-3", At: now.Add(-time.Minute)}, {Client: "envoy-4", Type: "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", At: now.Add(-time.Minute)}},
		Unanswered: []rollouts.Unwell{{Client: "envoy-5", Type: "type.googleapis.com/envoy.config.listener.v3.Listener", At: now.Add(-time.Hour)}},
	}
	want := []string{"CDS payments: Unknown field", "envoy-3, ", "after it had accepted", "envoy-4, ", "before it answered RDS", "envoy-5, to LDS sent"}
	var status, history strings.Builder
	printProgress(&status, &ops.RolloutProgress{State: "Held", Trouble: trouble}, now)
	printDecisions(&history, []ops.RolloutDecision{{At: now, What: "failed", Revision: "r-1", Why: "nacks: fail", Trouble: trouble}, {At: now, What: "freeze", By: "eva"}}, now)
	for _, text := range []string{status.String(), history.String()} {
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("the output lacks %q: %s", part, text)
			}
		}
		if strings.Contains(text, "\x1b") || strings.Contains(text, "field\nof") {
			t.Errorf("the output has control characters: %q", text)
		}
	}
	if text := history.String(); !strings.Contains(text, "failed r-1: 0 of 0 clients have it; nacks: fail") || !strings.Contains(text, "freeze, by eva") {
		t.Errorf("the decisions: %s", text)
	}
}
