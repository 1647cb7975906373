package check

import (
	"fmt"

	"xdsrelay/relay/robust/record"
)

// deleteOnlyIfDeleted: nothing is taken from a client, and nothing is told to be
// absent, but what the origin was without, once it had what the client holds.
type deleteOnlyIfDeleted struct{}

func (deleteOnlyIfDeleted) name() string { return "DeleteOnlyIfDeleted" }

func (deleteOnlyIfDeleted) check(m *Model, e *record.Event) (wrong []string) {
	s := m.streams[e.Stream]
	if e.Kind != record.ClientGot || s == nil {
		return nil
	}
	for _, n := range s.client.gone(e) {
		h := m.histories[resourceID{kind{s.client.key, e.Type}, n}]
		from := 0
		if held, ok := s.client.held[e.Type][n]; ok {
			from = max(0, h.find(held.Serial, 0))
		}
		if h.find(absent, from) < 0 {
			wrong = append(wrong, fmt.Sprintf("%s of %s is taken away, and the origin never removed it", n, record.ShortType(e.Type)))
		}
	}
	return wrong
}
