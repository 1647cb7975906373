package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/robust/record"
)

// forge observes a made-up recording and returns the texts of what contradicts one
// guarantee; contradictions of others fail the test unless they are named in also.
func forge(t *testing.T, guarantee string, events []record.Event, also ...string) (texts []string) {
	t.Helper()
	s := New(Options{Tier: true, Digests: true})
	if !slices.Contains(s.Guarantees(), guarantee) {
		t.Fatalf("no validator for %q among %q", guarantee, s.Guarantees())
	}
	for i := range events {
		events[i].Seq = i + 1
		for _, c := range s.Observe(&events[i]) {
			switch {
			case c.Guarantee == guarantee:
				texts = append(texts, c.Text)
			case !slices.Contains(also, c.Guarantee):
				t.Errorf("unexpected: %s", c)
			}
		}
	}
	return texts
}

// mustFind fails the test unless there is exactly one text, with a part in it.
func mustFind(t *testing.T, texts []string, part string) {
	t.Helper()
	if len(texts) != 1 || !strings.Contains(texts[0], part) {
		t.Errorf("found %q, want one with %q", texts, part)
	}
}

func mustBeFine(t *testing.T, texts []string) {
	t.Helper()
	if len(texts) != 0 {
		t.Errorf("found %q in a recording that is in order", texts)
	}
}

// Lines of forged recordings, all of key k unless they say otherwise.

func origin(typeURL, name string, serial int) record.Event {
	return record.Event{Kind: record.OriginState, Key: "k", Type: typeURL, Resources: []record.Resource{res(name, serial)}}
}

func res(name string, serial int) record.Resource {
	return record.Resource{Name: name, Version: "v", Key: "k", Serial: serial}
}

func sent(typeURL string, resources ...record.Resource) record.Event {
	return record.Event{Kind: record.OriginSent, Key: "k", Stream: 900, Type: typeURL, Resources: resources}
}

func accepted(typeURL string, resources ...record.Resource) record.Event {
	return record.Event{Kind: record.OriginAcked, Key: "k", Stream: 900, Type: typeURL, Resources: resources}
}

func got(stream int, typeURL string, resources ...record.Resource) record.Event {
	return record.Event{Kind: record.ClientGot, Stream: stream, Type: typeURL, Delta: true, Resources: resources}
}

func sotw(stream int, typeURL string, resources ...record.Resource) record.Event {
	e := got(stream, typeURL, resources...)
	e.Delta, e.Version = false, "digest"
	return e
}

func removed(stream int, typeURL string, names ...string) record.Event {
	return record.Event{Kind: record.ClientGot, Stream: stream, Type: typeURL, Delta: true, Removed: names}
}

func opened(client string, stream int, node string) record.Event {
	return record.Event{Kind: record.ClientOpen, Client: client, Stream: stream, Node: node}
}

func ended(stream int) record.Event {
	return record.Event{Kind: record.ClientEnd, Stream: stream, Why: "UNAVAILABLE"}
}

// after is an event at a time, in place of 0.
func after(at time.Duration, e record.Event) record.Event {
	e.At = at
	return e
}

func at(kind record.Kind, node string) record.Event { return record.Event{Kind: kind, Node: node} }

// then is a recording that goes on, in a copy of its own.
func then(events []record.Event, more ...record.Event) []record.Event {
	return slices.Concat(events, more)
}

// start is the beginning of a recording: the origin has cluster a@1, endpoints a@2
// and cluster b@3, and serves them; client d speaks delta, client s does not, both
// have a stream to node n, d as number 1 and s as 2, and hold all.
func start(more ...record.Event) []record.Event {
	wants := map[string][]string{clusterType: nil, endpointType: {"a"}}
	return append([]record.Event{
		origin(clusterType, "a", 1), origin(endpointType, "a", 2), origin(clusterType, "b", 3),
		{Kind: record.Begin},
		{Kind: record.OriginOpen, Stream: 900, Key: "k"},
		sent(clusterType, res("a", 1), res("b", 3)), sent(endpointType, res("a", 2)),
		{Kind: record.ClientNew, Client: "d", Key: "k", Delta: true, Wants: wants},
		{Kind: record.ClientNew, Client: "s", Key: "k", Wants: wants},
		opened("d", 1, "n"), opened("s", 2, "n"),
		got(1, clusterType, res("a", 1), res("b", 3)), got(1, endpointType, res("a", 2)),
		sotw(2, clusterType, res("a", 1), res("b", 3)), sotw(2, endpointType, res("a", 2)),
		at(record.Rest, ""),
	}, more...)
}
