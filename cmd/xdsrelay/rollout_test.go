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

// TestRolloutProgress: the status has both groups, where a revision was refused, and what is next.
func TestRolloutProgress(t *testing.T) {
	var moves, held strings.Builder
	arm := &ops.RolloutArm{Clients: 5, Accepted: 4, Requests: 100, Errors: 7}
	printProgress(&moves, &ops.RolloutProgress{State: "Stepping Bake", Step: 1, Steps: 2, Canaries: 5, Affected: 10, Canary: arm, Control: &ops.RolloutArm{Clients: 1}, Next: "all clients\x1b"}, time.Now())
	printProgress(&held, &ops.RolloutProgress{State: "Held", Steps: 2, Exposed: 2, Affected: 10}, time.Now())
	for _, want := range []string{
		"step          1 of 2, 5 of 10 affected clients are canaries\n", "canaries      5 clients, 4 accepted it, 0 rejected it, 0 unanswered, 0 lost; 7 of 100 requests failed\n",
		"control       1 client, 0 accepted it, 0 rejected it, 0 unanswered, 0 lost; requests not measured\n", "next          all clients",
	} {
		if !strings.Contains(moves.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, moves.String())
		}
	}
	if !strings.Contains(held.String(), "refused at    step 0 of 2, after 2 of 10 affected clients were sent it\n") || strings.Contains(moves.String(), "\x1b") {
		t.Errorf("held:\n%s", held.String())
	}
}

// TestRolloutObserved: what is only observed is never shown as if clients were kept from anything.
func TestRolloutObserved(t *testing.T) {
	now := time.Now()
	for state, want := range map[string]string{
		"Idle":          "state         nothing is held back\n",
		"Held":          "a rollout would have failed, and the revision would be refused\n",
		"Stepping Bake": "a rollout would be Stepping Bake, waits: bake\n",
	} {
		waits := map[string]string{"Held": "refused", "Stepping Bake": "bake"}[state]
		var out strings.Builder
		printProgress(&out, &ops.RolloutProgress{
			State: state, Mode: "observe", Waits: waits, Step: 1, Steps: 2, Canaries: 5, Affected: 10, Refused: []string{"r-1"},
			Observed: &rollouts.Observed{Clients: 10, Rejected: 3},
		}, now)
		for _, part := range []string{want, "1 of 2, 5 of 10 affected clients would be canaries", "10 have it; 3 rejected it", "would refuse  r-1"} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: the output lacks %q: %s", state, part, out.String())
			}
		}
	}
	var history strings.Builder
	printDecisions(&history, []ops.RolloutDecision{{At: now, What: "failed", Revision: "r-1", Canaries: 2, Affected: 9, Observed: true}}, now)
	if !strings.Contains(history.String(), "observed: failed r-1: 2 of 9 clients would have it") {
		t.Errorf("history: %s", history.String())
	}
}
