package robust

import (
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/robust/record"
)

// TestReadTakeover: what a recording says of a lost node is counted.
func TestReadTakeover(t *testing.T) {
	at := func(seconds int, e record.Event) record.Event {
		e.At = time.Duration(seconds) * time.Second
		return e
	}
	events := []record.Event{
		at(10, record.Event{Kind: record.NodeDown, Node: "n0"}),
		at(10, record.Event{Kind: record.OriginEnd, Key: "a"}),
		at(10, record.Event{Kind: record.OriginEnd, Key: "b"}),
		at(11, record.Event{Kind: record.ClientEnd, Client: "delta-ads-1"}),
		at(11, record.Event{Kind: record.ClientEnd, Client: "sotw-ads-2"}),
		at(12, record.Event{Kind: record.OriginOpen, Key: "a", Stream: 4}),
		at(12, record.Event{Kind: record.OriginOpen, Key: "a", Stream: 5}),
		at(12, record.Event{Kind: record.OriginSent, Key: "a", Bytes: 100}),
		at(13, record.Event{Kind: record.ClientGot, Client: "delta-ads-1", Bytes: 5}),
		at(13, record.Event{Kind: record.ClientGot, Client: "sotw-ads-2", Bytes: 70}),
		at(13, record.Event{Kind: record.ClientGot, Client: "delta-ads-3", Bytes: 1}),
		at(15, record.Event{Kind: record.OriginOpen, Key: "b", Stream: 6}),
		at(17, record.Event{Kind: record.OriginEnd, Key: "a", Stream: 4}),
	}
	out := Takeover{StreamsBefore: 3}
	out.read(events, 10*time.Second, map[string]int{"a": 1, "b": 1, "c": 1})
	want := Takeover{
		StreamsBefore: 3, Keys: 2, StreamsMost: 4, AgainMedian: 5, AgainLast: 5, OneEach: 7, OriginBytes: 100,
		MovedDelta: 1, MovedDeltaBytes: 5, MovedSotW: 1, MovedSotWBytes: 70, StayedBytes: 1,
	}
	if out != want {
		t.Errorf("read\n%+v, want\n%+v", out, want)
	}
}

// TestReports: the pages say what is in the reports.
func TestReports(t *testing.T) {
	dir := t.TempDir()
	takeovers := &TakeoverReport{Nodes: 3, Takeovers: []Takeover{{Lease: 2 * time.Second, End: "kill -9", Changed: 3.5}}}
	if err := takeovers.Write(dir, "takeovers"); err != nil {
		t.Fatal(err)
	}
	if page := takeovers.Page(); !strings.Contains(page, "| 2s | kill -9 | 0 | 0.0 | 0.0 | 0.0 | 3.5 |") {
		t.Errorf("the page does not tell:\n%s", page)
	}
	idle := &IdleReport{Nodes: 2, Keys: 3, Copies: 6, CPU: []float64{0.1, 0.2}, Calls: map[string]float64{"evalsha": 2, "ping": 0.5}, Scripted: 4}
	if err := idle.Write(dir, "idle"); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"| calls to Redis in a second | 2.5 |", "| of these EVALSHA | 2.0 |", "each node has 3 in the mean", "| 0.10 % and 0.20 % |"} {
		if page := idle.Page(); !strings.Contains(page, part) {
			t.Errorf("the page lacks %q:\n%s", part, page)
		}
	}
	report := &Report{Commit: "abc", Seed: 7, Rounds: []RoundReport{{Faults: []string{"flush Redis"}, Seconds: 2}}, Contradictions: []string{"Ordered: no"}}
	if err := report.Write(dir, "report"); err != nil {
		t.Fatal(err)
	}
	page := report.Page()
	for _, part := range []string{"1 contradictions", "Commit abc, seed 7", "| flush Redis | 1 | 2.0 | 2.0 |", "Ordered: no"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q:\n%s", part, page)
		}
	}
}
