package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"xdsrelay/relay/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a recorder of a node with a logger whose lines it reads.
func recorder(t *testing.T, node string, level slog.Level) (*events.Recorder, *slog.Logger, *bytes.Buffer) {
	t.Helper()
	var text bytes.Buffer
	r := events.New(nil)
	r.SetNode(node)
	t.Cleanup(r.Close)
	return r, slog.New(r.Handler(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level}))), &text
}

// all are the events of the recorder's own node.
func all(r *events.Recorder) []events.Event { return r.After(nil, time.Time{})[0].Events }

// TestRecorder: a line with a kind is an event whatever the level of the log is, has only the
// attributes of its kind, and no secrets.
func TestRecorder(t *testing.T) {
	r, log, text := recorder(t, "a", slog.LevelError)
	log = log.With("address", "cp:1", "variant", "delta")
	log.Info("nothing")
	log.Warn("no stream to the control plane", events.Key, events.ControlPlaneLost, "error", errors.New("password=hunter2 connection refused"), "secret", "s")
	log.Error("unknown", events.Key, events.Kind("no.such"), "a", 1)
	log.Error("a text is no kind", events.Key, "node.joined", "member", "x")
	got := all(r)
	if len(got) != 1 {
		t.Fatalf("%d events: %+v", len(got), got)
	}
	e := got[0]
	if e.Seq != 1 || e.Kind != events.ControlPlaneLost || e.Severity != events.Error || e.Node != "a" || e.Subject != (events.Subject{About: events.AboutControlPlane, Name: "cp:1"}) {
		t.Errorf("%+v", e)
	}
	if strings.Contains(fmt.Sprint(e), "hunter2") || e.Attributes["secret"] != "" || e.Attributes["variant"] != "" {
		t.Errorf("kept what it should not: %+v", e)
	}
	if !strings.HasPrefix(e.Text, "Control plane cp:1 has no stream from the relay: ") || !strings.HasSuffix(e.Text, "; clients keep their last configuration; the relay retries with backoff") {
		t.Errorf("text %q", e.Text)
	}
	if strings.Contains(text.String(), "level=WARN") || strings.Count(text.String(), "\n") != 2 {
		t.Errorf("the log of level ERROR has\n%s", text)
	}
}

// TestText: what a control plane or a file chose is one line, safe for a terminal, and bounded.
func TestText(t *testing.T) {
	r, log, _ := recorder(t, "a", slog.LevelInfo)
	log.Error("rejected", events.Key, events.ConfigRejected, "error", errors.New("relay.yaml:1:2: wrong\n    1 | x\x1b[2J\n      ^~\nrelay.yaml:3:1: also"))
	log.Warn("lost", events.Key, events.RedisLost, "error", `rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp: refused"`)
	log.Warn("lost", events.Key, events.RedisLost, "error", strings.Repeat("ü\x07", 5000))
	log.Info("back", events.Key, events.ControlPlaneBack, "address", "cp:1")
	want := []string{
		"A changed configuration was rejected: relay.yaml:1:2: wrong; relay.yaml:3:1: also; the previous one stays active; fix the file",
		"Redis is unreachable: dial tcp: refused; clients are not affected; nodes keep their last list of nodes; check Redis and the network",
		"",
		"Control plane cp:1 is reachable again",
	}
	for i, e := range all(r) {
		if want[i] != "" && e.Text != want[i] {
			t.Errorf("got %q\nexpected %q", e.Text, want[i])
		}
		if len(e.Text) > 2000 || strings.ContainsAny(e.Text, "\x07\x1b\n") {
			t.Errorf("text %q", e.Text)
		}
	}
}

// TestCombined: facts about 1,000 keys are one event with the number of keys and the sums.
func TestCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log, text := recorder(t, "a", slog.LevelInfo)
		for i := range 1000 {
			for range 2 { // as for two streams of a key
				log.Log(t.Context(), events.LevelQuiet, "moved", events.Key, events.OwnerMoved, "key", fmt.Sprint("key-", i), "from", "a", "to", "b")
			}
			log.Warn("engaged", events.Key, events.GuardEngaged, "key", fmt.Sprint("key-", i), "type", "T", "origin", "o", "removals", 3, "of", 5)
		}
		log.Log(t.Context(), events.LevelQuiet, "moved", events.Key, events.OwnerMoved, "key", "other", "from", "a", "to", "c")
		if got := all(r); len(got) != 0 {
			t.Errorf("%d events before they are combined", len(got))
		}
		time.Sleep(events.CombineTime + time.Millisecond) //nolint:forbidigo // virtual time
		got := all(r)
		if len(got) != 3 {
			t.Fatalf("%d events: %+v", len(got), got)
		}
		if got[0].Text != "1000 keys moved from node a to node b" || len(got[0].Keys) != events.MostKeys || got[0].Subject.Name != "" || !got[0].IsAbout("key-999") {
			t.Errorf("%+v", got[0])
		}
		if !strings.HasPrefix(got[1].Text, "The removal guard holds back 3000 removals of 5000 resources of 1000 keys;") {
			t.Errorf("%+v", got[1])
		}
		if got[2].Text != "1 key moved from node a to node c" || got[2].Subject.Name != "other" || got[2].IsAbout("key-1") || !got[2].IsAbout("other") {
			t.Errorf("%+v", got[2])
		}
		if strings.Contains(text.String(), "moved") {
			t.Error("the log has a line for each key")
		}
		log.Warn("engaged", events.Key, events.GuardExpired, "key", "k", "removals", 1)
		r.Close()
		if got := all(r); len(got) != 4 || got[3].Text != "The hold of the removal guard ended: 1 held removal of 1 key took effect; clients lose these resources" {
			t.Errorf("at the end: %+v", got)
		}
	})
}

// TestRing: a ring is bounded in number and bytes, and a kind in a minute; readers learn what they
// missed.
func TestRing(t *testing.T) {
	var r events.Ring
	at := time.Unix(1000, 0)
	add := func(kind events.Kind, text string) bool {
		_, added := r.Add(events.Event{Kind: kind, Time: at, Text: text})
		return added
	}
	n := 0
	for add(events.NodeJoined, "x") {
		n++
	}
	add(events.NodeJoined, "x")
	if p := r.After(0, time.Time{}); n == 0 || len(p.Events) != n || p.Omitted[events.NodeJoined] != 2 || p.Last != uint64(n) {
		t.Fatalf("%d recorded, then %+v", n, p.Omitted)
	}
	add(events.NodeLeft, "another kind is recorded")
	at = at.Add(time.Minute)
	add(events.NodeJoined, "x")
	p := r.After(uint64(n), time.Time{})
	if len(p.Events) != 2 || p.Events[1].Omitted != 2 || len(p.Omitted) > 0 || p.Lost != 0 {
		t.Errorf("%+v", p)
	}
	read := p.Last
	for i := range 3000 {
		at = at.Add(2 * time.Second)
		if !add(events.NodeJoined, strings.Repeat("x", i%100)) {
			t.Fatal("too many in a minute")
		}
	}
	p = r.After(read, time.Time{})
	if len(p.Events) != 1000 || p.Lost != 2000 || p.Last != read+3000 || p.Events[999].Seq != p.Last {
		t.Errorf("%d events, %d lost, last %d", len(p.Events), p.Lost, p.Last)
	}
	if p = r.After(p.Last, at.Add(-3*time.Second)); len(p.Events) != 2 {
		t.Errorf("%d events of the last seconds", len(p.Events))
	}
	for range 100 {
		at = at.Add(time.Minute)
		add(events.ConfigRejected, strings.Repeat("x", 50_000))
	}
	if p = r.After(0, time.Time{}); len(p.Events) > 11 {
		t.Errorf("%d events of 50 kB", len(p.Events))
	}
}

// part is what a node recorded.
func part(node string, all ...events.Event) events.Part {
	p := events.Part{Node: node, Run: "run-" + node}
	for i, e := range all {
		e.Node, e.Seq, p.Last = node, uint64(i+1), uint64(i+1)
		p.Events = append(p.Events, e)
	}
	return p
}

// TestMerge: a fact that several nodes recorded is one event with all of them; what each node says
// of itself is not joined, nor what happened twice.
func TestMerge(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	gone := func(seconds int, name string) events.Event {
		return events.Event{Kind: events.NodeDisappeared, Time: at(seconds), Subject: events.Subject{About: events.AboutNode, Name: name}, Attributes: map[string]string{"member": name}}
	}
	started := func(seconds int, name string) events.Event {
		return events.Event{Kind: events.NodeStarted, Time: at(seconds), Subject: events.Subject{About: events.AboutNode, Name: name}, Attributes: map[string]string{}}
	}
	moved := func(seconds int, keys ...string) events.Event {
		return events.Event{Kind: events.OwnerMoved, Time: at(seconds), Keys: keys, Subject: events.Subject{About: events.AboutKey}, Attributes: map[string]string{"from": "c", "to": "a", "keys": fmt.Sprint(len(keys))}}
	}
	parts := []events.Part{
		part("a", started(0, "a"), gone(10, "c"), gone(11, "d"), moved(12, "k1", "k2"), gone(100, "c")),
		part("b", started(0, "b"), gone(15, "c"), moved(13, "k2", "k3")),
		part("e", events.Event{Kind: "unknown.kind", Time: at(11), Text: "of a newer node"}),
	}
	var got []string
	for _, s := range events.Merge(parts, nil) {
		got = append(got, fmt.Sprintf("%d %s %s %v", s.Time.Unix()-1000, s.Kind, s.Subject.Name, s.Nodes))
		if s.Kind == events.OwnerMoved && (s.Text != "3 keys moved from node c to node a" || !slices.Equal(s.Keys, []string{"k1", "k2", "k3"})) {
			t.Errorf("%+v", s)
		}
	}
	want := []string{
		"0 node.started a [a]", "0 node.started b [b]", "10 node.disappeared c [a b]", "11 node.disappeared d [a]", "11 unknown.kind  [e]",
		"12 owner.moved  [a b]", "100 node.disappeared c [a]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// A reader that has what node a recorded does not get what node b recorded of the same.
	got = nil
	for _, s := range events.Merge(parts, events.Positions{"run-a": 4, "run-b": 1}) {
		got = append(got, fmt.Sprintf("%s %s", s.Kind, s.Subject.Name))
	}
	if !slices.Equal(got, []string{"unknown.kind ", "node.disappeared c"}) {
		t.Errorf("the reader gets %q", got)
	}
}

// TestCopies: copies of the events of other nodes are bounded, grow by what is new, and are the same
// events as those of the node itself.
func TestCopies(t *testing.T) {
	r, _, _ := recorder(t, "a", slog.LevelInfo)
	b := part("b", events.Event{Kind: events.ConfigApplied, Time: time.Unix(1, 0)}, events.Event{Kind: events.ConfigRejected, Time: time.Unix(2, 0)})
	first := b
	first.Events, first.Last = b.Events[:1], 1
	r.Copy([]events.Part{first})
	r.Copy([]events.Part{b, b})
	if got := r.Copied(); !reflect.DeepEqual(got, events.Positions{"run-b": 2}) {
		t.Errorf("%v", got)
	}
	parts := append(r.After(nil, time.Time{}), b)
	if got := events.Merge(events.Distinct(parts), nil); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	for i := range 100 {
		p := part(fmt.Sprint("n", i))
		for seq := range 300 {
			p.Events = append(p.Events, events.Event{Kind: events.NodeLeft, Seq: uint64(seq + 1), Time: time.Unix(int64(i), 0)})
		}
		r.Copy([]events.Part{p})
	}
	n := 0
	for _, p := range r.After(nil, time.Time{}) {
		n += len(p.Events)
	}
	if n == 0 || n > 32*200 {
		t.Errorf("%d events are kept of other nodes", n)
	}
}

// TestTable: the table of kinds is complete: each kind has a severity, a subject and a text whose
// placeholders are among its attributes.
func TestTable(t *testing.T) {
	seen := make(map[events.Kind]bool)
	for _, s := range events.Kinds() {
		if seen[s.Kind] || s.Kind == "" || s.About == "" || s.Text == "" || !slices.Contains([]events.Severity{events.Info, events.Warning, events.Error}, s.Severity) {
			t.Errorf("the row of %q is incomplete, or twice there: %+v", s.Kind, s)
		}
		seen[s.Kind] = true
		known := append([]string{"node", s.Name}, s.Attributes...)
		if s.Combining != events.Single {
			known = append(known, "keys")
			if s.Name != "key" {
				t.Errorf("%s combines keys and has none", s.Kind)
			}
		}
		for _, name := range slices.Concat(events.Placeholders(s.Text), s.Same, s.Sums) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: %q is no attribute of it", s.Kind, name)
			}
		}
	}
}

// FuzzMerge: answers of other nodes, whatever they are, neither break a reader nor give one event
// twice.
func FuzzMerge(f *testing.F) {
	for _, p := range []events.Part{part("a", events.Event{Kind: events.OwnerMoved, Keys: []string{"k"}, Attributes: map[string]string{"keys": "7", "from": "a"}}), {Node: "b", Run: "x", Last: 9}} {
		text, err := json.Marshal([]events.Part{p, part("b", p.Events...)})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var parts []events.Part
		if json.Unmarshal(text, &parts) != nil {
			return
		}
		n := 0
		for _, p := range parts {
			n += len(p.Events)
		}
		if got := events.Merge(events.Distinct(parts), nil); len(got) > n {
			t.Errorf("%d events of %d", len(got), n)
		}
	})
}
