package check

import (
	"fmt"
	"maps"
	"slices"

	"xdsrelay/relay/robust/record"
)

// converges: at rest, and where a fault must not show, every client has a stream, and holds exactly what the origin
// has of what it subscribes to. A client that is told states of the world may keep
// what it asked for by name and the origin no longer has: nothing can tell it (D6).
type converges struct{}

func (converges) name() string { return "Converges" }

func (v converges) check(m *Model, e *record.Event) []string {
	if e.Kind == record.Held {
		return v.unsettled(m)
	}
	return atRest(v, m, e)
}

func (converges) unsettled(m *Model) (open []string) {
	for _, name := range slices.Sorted(maps.Keys(m.clients)) {
		c := m.clients[name]
		if c.away {
			continue
		}
		if c.stream == nil {
			open = append(open, fmt.Sprintf("client %s has no stream", name))
			continue
		}
		for _, typeURL := range slices.Sorted(maps.Keys(c.wants)) {
			want, held := m.wanted(c, typeURL), c.held[typeURL]
			say := func(format string, args ...any) {
				open = append(open, fmt.Sprintf("client %s at %s, key %s, %s: ", name, c.stream.node, c.key, record.ShortType(typeURL))+
					fmt.Sprintf(format, args...))
			}
			for _, n := range slices.Sorted(maps.Keys(want)) {
				if h, ok := held[n]; !ok {
					say("lacks %s@%d", n, want[n])
				} else if h.Serial != want[n] {
					say("has %s@%d, the origin @%d", n, h.Serial, want[n])
				}
			}
			for _, n := range slices.Sorted(maps.Keys(held)) {
				if _, ok := want[n]; !ok && (c.delta || fullState(typeURL)) {
					say("still has %s@%d", n, held[n].Serial)
				}
			}
		}
	}
	return open
}
