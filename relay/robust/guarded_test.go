package robust

import (
	"fmt"
	"testing"
	"time"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// TestGuarded: a client that loses what the removal guard holds back is found, and nothing else.
func TestGuarded(t *testing.T) {
	const second = time.Second
	var names []string
	for i := range 2 * fewest {
		names = append(names, fmt.Sprintf("cluster-%d", i))
	}
	state := func(at time.Duration, serial int, names ...string) (events []record.Event) {
		for _, n := range names {
			events = append(events, record.Event{At: at, Kind: record.OriginState, Key: "k", Type: xdstest.ClusterType, Resources: []record.Resource{{Name: n, Serial: serial}}})
		}
		return events
	}
	got := func(at time.Duration, delta bool, removed []string, names ...string) []record.Event {
		e := record.Event{At: at, Kind: record.ClientGot, Client: "c", Type: xdstest.ClusterType, Delta: delta, Removed: removed}
		for _, n := range names {
			e.Resources = append(e.Resources, record.Resource{Name: n})
		}
		return []record.Event{e}
	}
	process := chosen{fault: fault{area: processArea}}
	for _, test := range []struct {
		name   string
		more   [][]record.Event
		faults bool
		want   int
	}{
		{"within the hold", [][]record.Event{got(5*second, true, names[:2])}, false, 2},
		{"within the hold, without delta", [][]record.Event{got(5*second, false, nil, names[2:]...)}, false, 2},
		{"after the hold", [][]record.Event{got(12*second, true, names)}, false, 0},
		{"put right, after the hold", [][]record.Event{state(4*second, 1, names...), got(12*second, true, names[:1])}, false, 1},
		{"some are back, after the hold", [][]record.Event{state(4*second, 1, names[0]), got(12*second, true, names[1:])}, false, 0},
		{"put right late", [][]record.Event{state(8*second, 1, names...), got(12*second, true, names)}, false, 0},
		{"removed again", [][]record.Event{state(4*second, 1, names...), state(5*second, 0, names[0]), got(6*second, true, names[:1])}, false, 0},
		{"a fault", [][]record.Event{got(5*second, true, names)}, true, 0},
		{"at rest", [][]record.Event{{{Kind: record.Rest}}, got(5*second, true, names)}, false, 0},
	} {
		g := newGuarded()
		found := 0
		events := state(0, 1, names...)
		events = append(events, record.Event{Kind: record.ClientNew, Client: "c", Key: "k"}, record.Event{Kind: record.ClientOpen, Client: "c"})
		events = append(events, got(0, true, nil, names...)...)
		events = append(events, state(2*second, 0, names...)...)
		for i, part := range append([][]record.Event{events}, test.more...) {
			for j := range part {
				found += len(g.observe(&part[j]))
			}
			if i == 0 && test.faults {
				g.trouble(process, true)
				g.trouble(process, false)
			}
		}
		if found != test.want {
			t.Errorf("%s: %d contradictions, expected %d", test.name, found, test.want)
		}
	}

	// A few removals are no mass removal.
	g := newGuarded()
	for _, part := range [][]record.Event{state(0, 1, "a"), {{Kind: record.ClientNew, Client: "c", Key: "k"}, {Kind: record.ClientOpen, Client: "c"}}, got(0, true, nil, "a"), state(second, 0, "a")} {
		for i := range part {
			g.observe(&part[i])
		}
	}
	if found := g.observe(&got(2*second, true, []string{"a"})[0]); len(found) > 0 {
		t.Errorf("one removal: %v", found)
	}
}
