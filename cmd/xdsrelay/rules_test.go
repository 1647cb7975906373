package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// TestFormerTableTime: the estimate is no less than the time that the pace needs.
func TestFormerTableTime(t *testing.T) {
	for _, tc := range []struct {
		due       int
		perSecond float64
		want      string
	}{
		{24, 100, "would move 24 clients in about 1s"},
		{250, 100, "would move 250 clients in about 3s"},
		{90, 0.5, "would move 90 clients in about 3m0s"},
	} {
		var b bytes.Buffer
		formerTable(&b, moveResult{Remaining: map[ops.Former]int{ops.FormerKeyChanges: tc.due}}, true, tc.perSecond)
		if !strings.Contains(b.String(), tc.want) {
			t.Errorf("expected %q, got\n%s", tc.want, b.String())
		}
	}
}

// movedTier is a tier with clients on former rules, as its admin port shows it.
type movedTier struct {
	returns time.Duration // until a moved client is back; 0 for never
	silent  func(batches int) bool

	mu sync.Mutex
	// Guarded by mu.
	due, streams int
	batches      []int
}

func (m *movedTier) handler() http.Handler {
	mux := http.NewServeMux()
	state := func(former *map[ops.Former]int, streams *int, silent *[]ops.Silent) {
		*former, *streams = map[ops.Former]int{ops.FormerKeyChanges: m.due, ops.FormerRefused: 3}, m.streams
		if m.silent != nil && m.silent(len(m.batches)) {
			*silent = []ops.Silent{{Node: "b", Error: "no answer within 3s"}}
		}
	}
	mux.HandleFunc("GET /api/v1/summary", func(w http.ResponseWriter, _ *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		var s ops.Summary
		state(&s.Former, &s.Streams, &s.Silent)
		_ = json.NewEncoder(w).Encode(s)
	})
	mux.HandleFunc("POST /rules/apply", func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		most, _ := strconv.Atoi(r.URL.Query().Get("most"))
		var a ops.Applied
		state(&a.Former, &a.Streams, &a.Silent)
		a.Ended = min(most, m.due)
		m.due -= a.Ended
		m.streams -= a.Ended
		m.batches = append(m.batches, a.Ended)
		if m.returns > 0 {
			time.AfterFunc(m.returns, func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.streams += a.Ended
			})
		}
		_ = json.NewEncoder(w).Encode(a)
	})
	return mux
}

// apply runs the command in virtual time against the tier.
func (m *movedTier) apply(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	network := xdstest.NewMemory()
	l, err := network.Listen("127.0.0.1:19000")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: m.handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, dial: func(ctx context.Context, _, address string) (net.Conn, error) { return network.Dial(ctx, address) }}
	code = a.run(ctx, append([]string{"rules", "apply"}, args...))
	return code, out.String(), errs.String()
}

// TestRulesApply: the command moves the clients at its pace and ends when they are back; it stops if
// too many stay away, a node is silent, or the user interrupts it.
func TestRulesApply(t *testing.T) {
	for _, tc := range []struct {
		name    string
		tier    *movedTier
		args    []string
		after   time.Duration // of an interrupt
		code    int
		batches string
		stdout  string
		stderr  string
	}{
		{name: "all return", tier: &movedTier{due: 250, streams: 400, returns: 3 * time.Second}, args: []string{"--pace", "100/s"}, batches: "100 100 50", stdout: "moved 250 clients\n", stderr: "moved 200 clients; 50 to go\n"},
		{name: "slowly", tier: &movedTier{due: 3, streams: 4, returns: time.Second}, args: []string{"--pace", "30/m"}, batches: "1 1 1", stdout: "moved 3 clients\n"},
		{name: "none returns", tier: &movedTier{due: 1000, streams: 1000}, args: []string{"--pace", "20/s"}, code: 1, stderr: "have not reconnected after 15s; the others keep their key. Run the command again to continue"},
		{name: "none of the only batch returns", tier: &movedTier{due: 50, streams: 400}, code: 1, batches: "50", stderr: "stopped after 50 clients moved: 50 clients have not reconnected after 15s"},
		{name: "a few do not return", tier: &movedTier{due: 3, streams: 400}, batches: "3", stdout: "moved 3 clients; not reconnected: 3; 'xdsrelay events --kind clients' shows whether nodes reject them\n"},
		{name: "a silent node", tier: &movedTier{due: 10, streams: 10, returns: time.Second, silent: func(int) bool { return true }}, code: 1, stderr: "node b does not answer: no answer within 3s"},
		{name: "a node that becomes silent", tier: &movedTier{due: 1000, streams: 1000, returns: time.Second, silent: func(n int) bool { return n > 1 }}, code: 1, batches: "100 100 100", stderr: "stopped after 300 clients moved: node b does not answer"},
		{name: "interrupted", tier: &movedTier{due: 1000, streams: 1000, returns: time.Second}, after: 2500 * time.Millisecond, code: 1, batches: "100 100", stderr: "stopped after 200 clients moved: interrupted"},
		{name: "only counted", tier: &movedTier{due: 250, streams: 400}, args: []string{"--dry-run"}, stdout: "'xdsrelay rules apply' would move 250 clients in about 3s\n"},
		{name: "nothing to do", tier: &movedTier{streams: 400}, args: []string{"-o", "json"}, stdout: `"moved": 0`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.after > 0 {
					time.AfterFunc(tc.after, cancel)
				}
				code, stdout, stderr := tc.tier.apply(t, ctx, tc.args...)
				var batches []string
				for _, n := range tc.tier.batches {
					batches = append(batches, strconv.Itoa(n))
				}
				if got := strings.Join(batches, " "); code != tc.code || tc.batches != "" && got != tc.batches || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
					t.Errorf("exit code %d, batches %s\n%s\n%s", code, got, stdout, stderr)
				}
				if tc.batches == "" && tc.name != "none returns" && len(batches) > 0 {
					t.Errorf("moved %v", batches)
				}
				if n := len(batches); tc.name == "none returns" && (n < 15 || n > 20) {
					t.Errorf("stopped after %d batches", n)
				}
			})
		})
	}
}
