package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"xdsrelay/relay/ops"
)

// TestFollowEvents: --follow prints each event once and continues where the last answer ended. It
// reports a node that does not answer, or answers without others, and goes on.
func TestFollowEvents(t *testing.T) {
	t.Parallel() // mostly waits
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	event := func(node, text string) (e ops.Event) {
		e.Time, e.Node, e.Nodes, e.Seq, e.Kind, e.Severity, e.Text = time.Unix(1, 0), node, []string{node}, 1, "node.left", "info", text
		return e
	}
	var mu sync.Mutex
	var asked []string
	answers := []*ops.Events{
		{Events: []ops.Event{event("a", "first")}, After: "one", Silent: []ops.Silent{{Node: "c", Error: "refused"}}},
		nil,
		{Events: []ops.Event{event("b", "second \x1b[2J")}, After: "two", Lost: []ops.LostEvents{{Node: "b", Count: 7}}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Query().Get("after"))
		answer := answers[min(len(asked), len(answers))-1]
		if len(asked) > len(answers) {
			stop()
			return
		}
		if answer == nil {
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	var out, notes bytes.Buffer
	if code := run(ctx, []string{"events", "--follow", "--admin", strings.TrimPrefix(server.URL, "http://"), "--kind", "node"}, nil, &out, &notes); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if got := strings.Join(asked[:3], ","); got != ",one,one" {
		t.Errorf("asked for %s", got)
	}
	if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "first\n") || !strings.Contains(text, "second ?[2J\n") {
		t.Errorf("printed\n%s", text)
	}
	for _, want := range []string{"node c does not answer: refused; its events are missing", "retrying; the events of that node are lost if it has exited", "answers again after", "node c answers again", "node b no longer keeps 7 events"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &notes)
		}
	}
}
