package demo

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestRunRollout: a good version goes to scouts, steps and all clients; a bad one only to scouts, which get the
// good one back; the next one is released without an order. Nothing is left over.
func TestRunRollout(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	if err := RunRollout(t.Context(), RolloutConfig{Clients: 40, Bake: time.Second, Out: &out}); err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out.String())
	}
	for _, want := range []string{
		`All 40 of them have their configuration`,
		`(?s)A good version.*scouts: 5 of 40 clients have it.*step:   5 of 40 clients have it.*step:   20 of 40 clients have it.*all:.*good:.*A bad version`,
		`(?s)A bad version.*scouts: 5 of 40 clients have it.*held:   the scouts get the good version back.*rejected by shop-\S+: CDS greeter: .*ConnectTimeout.*all 40 clients have the good version`,
		`(?s)put right.*scouts: 5 of 40.*good:`,
		`All 40 clients have the last version, byte by byte\. The bad one reached [1-5] of them\.`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output has nothing like %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "Ctrl-C") {
		t.Error("the demo says that it stays")
	}
}

// TestRunRolloutInterrupted: a demo that is interrupted ends without an error, also one that stays.
func TestRunRolloutInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &until{end: cancel, texts: []string{`A good version`}}
	if err := RunRollout(ctx, RolloutConfig{Clients: 10, Out: out, Stays: true}); err != nil || !strings.Contains(out.String(), "Interrupted.") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := RunRollout(ctx, RolloutConfig{Out: out}); err == nil {
		t.Error("a demo without clients runs")
	}
}
