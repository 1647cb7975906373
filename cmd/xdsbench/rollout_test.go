package main

import (
	"encoding/json"
	"os"
	"testing"

	"xdsrelay/bench/report"
)

// TestRollout takes a relay with a rollout policy through a revision that clients reject, with few clients and
// real processes, and holds that what is measured can be right.
func TestRollout(t *testing.T) {
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -pgo=off") // see TestCompare
	t.Setenv("CGO_ENABLED", "0")
	code, stdout, stderr := command(t, "run", "rollout-keys-bad", "--clients", "10", "--keys", "1", "--resources", "5", "--json")
	var r report.Result
	if err := json.Unmarshal([]byte(stdout), &r); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v:\n%s\n%s", code, err, stdout, stderr)
	}
	run := r.Cases[0].Runs[0]
	if len(run.Steps) != 2 || run.Steps[1].Rollout == nil {
		t.Fatalf("steps %+v, expected one with a rollout", run.Steps)
	}
	got := *run.Steps[1].Rollout
	if got.HeldAfter <= 0 {
		t.Errorf("refused after %v s", got.HeldAfter)
	}
	got.HeldAfter = 0
	if want := (report.Rollout{How: "reject", Exposed: 1, Early: 1, NACKs: 1, Explained: 1}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
}
