package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/fleet"
	"xdsrelay/bench/origin"
	"xdsrelay/relay/xdstest"
)

// TestFleetUsage holds how mistakes of the fleet's flags are told.
func TestFleetUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                           `required flag(s) "addr" not set`,
		"--addr nowhere":             `address "nowhere", expected host:port`,
		"--addr :1 --clients 0":      "0 clients, expected at least 1",
		"--addr :1 --slow 101":       "a slow share of 101 %",
		"--addr :1 --types sds":      `type "sds", expected cds, eds, lds or rds`,
		"--addr :1 --storm lukewarm": `storm: got "lukewarm", expected warm or cold`,
		"--addr :1 --storm warm --storm-every 0s": "storm every: got 0s",
		"--addr :1 --settle -1s":                  "settle: got -1s, expected 0 or more",
		"--addr :1 --tls-cert x":                  "there is no certificate authority",
		"--addr :1 --tls-ca x --tls-cert x":       "a certificate needs a key",
		"--addr :1 --tls-ca fleet_test.go":        "fleet_test.go holds no certificate in PEM form",
		"--addr :1 --delta --sotw":                "if any flags in the group [delta sotw] are set none of the others can be",
	} {
		code, _, stderr := command(t, append([]string{"fleet"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d and %q, expected %d and %q", args, code, stderr, exitUsage, want)
		}
	}
}

func startOrigin(t *testing.T, spec content.Spec) *drive.Driver {
	t.Helper()
	o, err := origin.New(origin.Config{Spec: spec, Cache: origin.Linear})
	if err != nil {
		t.Fatal(err)
	}
	d, err := drive.New(o, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// TestFleet holds what a fleet says at the end, and that its exit code tells
// whether all was well.
func TestFleet(t *testing.T) {
	o := startOrigin(t, content.Spec{Keys: 2, Clusters: 3})
	code, stdout, stderr := command(t, "fleet", "--addr", o.Addr(), "--clients", "10", "--keys", "2", "--for", "1500ms", "--json")
	var s fleet.Stats
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %q, %v:\n%s", code, stderr, err, stdout)
	}
	h, err := s.FirstSync.Decode()
	if s.Clients != 10 || s.Connected != 10 || s.Synced != 10 || err != nil || h.TotalCount() != 10 || s.FirstSync.Count != 10 {
		t.Errorf("at the end: %s, %v", stdout, err)
	}
	if !strings.Contains(stderr, " synced of 10; ") {
		t.Errorf("it tells %q", stderr)
	}

	// These are not what the origin was told. A fleet that finds that waits no
	// longer than it has to, one that lacks something waits in vain.
	code, stdout, stderr = command(t, "fleet", "--addr", o.Addr(), "--clients", "3", "--resources", "3", "--size", "500", "--for", "10ms")
	if code != exitError || !strings.Contains(stdout, "VIOLATED") || !strings.Contains(stdout, "altered, first: client-000000") ||
		!strings.HasSuffix(stderr, "xdsbench: not all is well: the protocol was broken in 1 ways\n") {
		t.Errorf("exit code %d, %q and %q", code, stdout, stderr)
	}
	// A second without a response, by the line of progress that says so, tells that the
	// clients have all they will get, and one with an end that they have tried.
	code, stdout, stderr = fleetUntil(t, "3 connected, 0 synced of 3; 0 responses/s", "--addr", o.Addr(), "--clients", "3", "--resources", "4")
	if code != exitError || !strings.Contains(stderr, "of 3 clients 3 are connected and 0 hold all they asked for; client-0000000 of key-00000 (normal), cds: 3 resources") {
		t.Errorf("exit code %d, %q and %q", code, stdout, stderr)
	}
	if err := o.Down(); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = fleetUntil(t, " ended\n", "--addr", o.Addr(), "--clients", "3")
	if code != exitError || !strings.Contains(stdout, "× dial, first: dial tcp "+o.Addr()) || !strings.Contains(stderr, "has no stream") {
		t.Errorf("exit code %d, %q and %q", code, stdout, stderr)
	}
}

// fleetUntil runs a fleet whose clients lack something until it tells a text; its time
// is over long before, and its patience would last for longer.
func fleetUntil(t *testing.T, text string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	var out, errs bytes.Buffer
	args = append([]string{"fleet", "--for", "1ms", "--settle", "1h"}, args...)
	code = run(ctx, args, strings.NewReader(""), &out, &until{text: text, seen: cancel, Buffer: &errs})
	return code, out.String(), errs.String()
}

// TestFleetEndsInStorm holds that a fleet whose time is over in the middle of a
// storm judges its clients once they had the time to come back.
func TestFleetEndsInStorm(t *testing.T) {
	o := startOrigin(t, content.Spec{Keys: 2, Clusters: 3})
	const lasts = 700 * time.Millisecond
	over := time.After(lasts + 300*time.Millisecond)
	type outcome struct {
		code           int
		stdout, stderr string
	}
	ended := make(chan outcome, 1)
	go func() {
		var end outcome
		end.code, end.stdout, end.stderr = command(t, "fleet", "--addr", o.Addr(), "--clients", "10", "--keys", "2",
			"--for", lasts.String(), "--json", "--storm", "cold", "--storm-every", "10ms")
		ended <- end
	}()
	xdstest.Eventually(t, "streams", func() bool { return o.Stats().Streams == 10 })
	// From now on a storm cannot come to its end, until the time is over.
	if err := o.Down(); err != nil {
		t.Fatal(err)
	}
	<-over
	if err := o.Up(); err != nil {
		t.Fatal(err)
	}
	end := <-ended
	var s fleet.Stats
	if err := json.Unmarshal([]byte(end.stdout), &s); err != nil || end.code != exitOK || s.Connected != 10 || s.Synced != 10 {
		t.Errorf("exit code %d, %q, %v:\n%s", end.code, end.stderr, err, end.stdout)
	}
}

// TestFleetOrders holds that a fleet takes orders as a child.
func TestFleetOrders(t *testing.T) {
	o := startOrigin(t, content.Spec{Keys: 1, Clusters: 3})
	made, err := o.Change(content.Change{Kind: content.One})
	if err != nil {
		t.Fatal(err)
	}
	orders := `{"do":"connect","args":{"clients":2}} {"do":"connect","args":{"until":"connected"}}
		{"do":"await","args":{"revision":1,"change":{"kind":"one"}}} {"do":"await","args":{"revision":2,"timeout":1000000}}
		{"do":"expect","args":{"first":5,"at":"2026-01-01T00:00:00Z","interval":1,"change":{"kind":"one"}}} {"do":"expect"}
		{"do":"storm","args":{"versions":"warm","quiet":1000000}} {"do":"storm"} {"do":"connect","args":{"until":"bored"}}
		{"do":"stats"} {"do":"reset"} {"do":"stats"} {"do":"close"}`
	var out, errs bytes.Buffer
	args := []string{"fleet", "--addr", o.Addr(), "--clients", "5", "--control"}
	if code := run(t.Context(), args, strings.NewReader(orders), &out, &errs); code != exitOK || errs.Len() > 0 {
		t.Errorf("exit code %d and %q", code, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`{"ready":{"clients":5}}`,
		`{"reply":{"done":true,`, `{"reply":{"done":true,`,
		`{"reply":{"done":true,`, `{"reply":{"done":false,`,
		`{"reply":{}}`, `{"error":"plan: `,
		`{"reply":{"done":true,`, `{"error":"storm: versions \"\"`, `{"error":"connect: until \"bored\"`,
		`{"reply":{"clients":5,"connected":5,"synced":5,"responses":`, `{"reply":{}}`,
		`{"reply":{"clients":5,"connected":5,"synced":5,"responses":0,`, `{"reply":{}}`,
	}
	if made.Revision != 1 || len(lines) != len(want) {
		t.Fatalf("it answers:\n%s", out.String())
	}
	for i, l := range lines {
		if !strings.HasPrefix(l, want[i]) {
			t.Errorf("answer %d is %s, expected %s", i, l, want[i])
		}
	}
}
