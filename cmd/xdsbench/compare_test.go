package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"xdsrelay/bench/report"
)

// TestCompare takes targets through a scenario, with few clients and real
// processes, and holds that what is measured can be right and is kept.
func TestCompare(t *testing.T) {
	// As most tests are built: with the profile, or with cgo for the race detector, each
	// package of the relay would be compiled once more for this test alone.
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -pgo=off")
	t.Setenv("CGO_ENABLED", "0")
	dir := t.TempDir()
	code, stdout, stderr := command(t, "compare", "check", "--clients", "10", "--resources", "5", "--rounds", "1", "--duration", "400ms", "--interval", "100ms", "--keep", dir, "--against", dir)
	if code != exitOK {
		t.Fatalf("exit code %d:\n%s\n%s", code, stdout, stderr)
	}
	for _, want := range []string{"no result was kept", "kept in " + dir} {
		if !strings.Contains(stderr, want) {
			t.Errorf("standard error lacks %q:\n%s", want, stderr)
		}
	}
	r, _, err := report.Last(dir, "check")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"floor", "relay"}; !slices.Equal(r.Targets, want) || len(r.Cases) != 2 {
		t.Fatalf("%d cases of %q, expected two of %q", len(r.Cases), r.Targets, want)
	}
	for _, c := range r.Cases {
		for _, run := range c.Runs {
			checkRun(t, c.Setup.Variant, run, 2)
		}
	}
	for _, ext := range []string{".md", ".html"} {
		if files, err := filepath.Glob(filepath.Join(dir, "check-*"+ext)); err != nil || len(files) != 1 {
			t.Errorf("%d files %s were kept", len(files), ext)
		}
	}
}

// checkRun holds what a run has to have found, whatever the machine.
func checkRun(t *testing.T, variant string, run report.Run, steps int) {
	t.Helper()
	who := run.Target + " " + variant
	if run.Problem() != "" || len(run.Steps) != steps {
		t.Errorf("%s: %d steps, problem %q", who, len(run.Steps), run.Problem())
		return
	}
	for _, s := range run.Steps {
		if s.Synced != 10 || s.Clients.Responses < 10 || s.Clients.Bytes == 0 || s.Target.RSS == 0 || s.Latency == nil || s.Latency.Count == 0 {
			t.Errorf("%s: step %+v", who, s)
		}
	}
	one := run.Steps[1]
	if one.Clients.Responses > 10*int64(one.Changes) {
		t.Errorf("%s: %d responses for %d changes and 10 clients", who, one.Clients.Responses, one.Changes)
	}
	// Through the relay the origin answers once; otherwise each client.
	if run.Target == report.RelayTarget && one.Load.Responses > int64(one.Changes) {
		t.Errorf("%s: the origin gave %d responses for %d changes", who, one.Load.Responses, one.Changes)
	}
}

// TestRun holds a run with JSON, and that a target that does not come up is a
// failure with its reason.
func TestRun(t *testing.T) {
	code, stdout, stderr := command(t, "run", "steady", "--clients", "10", "--resources", "5", "--variant", "delta", "--duration", "200ms",
		"--interval", "100ms", "--target", "origin", "--json")
	var r report.Result
	if err := json.Unmarshal([]byte(stdout), &r); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v:\n%s\n%s", code, err, stdout, stderr)
	}
	if r.Runs() != 1 || !strings.HasPrefix(r.Command, "xdsbench run steady --clients 10") {
		t.Fatalf("%d runs by %q", r.Runs(), r.Command)
	}
	checkRun(t, "delta", r.Cases[0].Runs[0], 4)
	code, stdout, _ = command(t, "run", "sync", "--clients", "3", "--variant", "delta", "--target", "command:echo no server at {{.Port}}; exit 1")
	if code != exitError || !strings.Contains(stdout, "no server at") {
		t.Errorf("a target that does not come up: exit code %d and\n%s", code, stdout)
	}
}

// TestScenarios holds that each is listed.
func TestScenarios(t *testing.T) {
	code, stdout, _ := command(t, "scenarios")
	if code != exitOK || !strings.Contains(stdout, "steady ") || !strings.Contains(stdout, "outage-idle ") {
		t.Errorf("exit code %d and\n%s", code, stdout)
	}
}

// TestProgress holds that the line that changes is only for terminals.
func TestProgress(t *testing.T) {
	var b strings.Builder
	p := newStatusLine(&b)
	p.status("working")
	p.logf("done %d", 1)
	p.width = 8
	p.status("working hard")
	p.clear()
	p.clear()
	if want := "done 1\nworkin…\r\x1b[K"; b.String() != want {
		t.Errorf("%q, expected %q", b.String(), want)
	}
	if got, want := quoted([]string{"a", "b c", "it's", ""}), `a 'b c' 'it'\''s' ''`; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

// isChild says that this process is a child of a test's.
func isChild() bool {
	return len(os.Args) > 1 && slices.Contains([]string{"origin", "floor", "fleet"}, os.Args[1])
}
