package check

import (
	"fmt"

	"xdsrelay/relay/robust/record"
)

// noDrop: a client's stream ends because the client or the client's own node does,
// never because of a fault elsewhere. A stream that had no answer yet may end
// UNAVAILABLE, so that the client can try another node (K15).
type noDrop struct{}

func (noDrop) name() string { return "NoDrop" }

func (noDrop) check(m *Model, e *record.Event) []string {
	s := m.streams[e.Stream]
	if e.Kind != record.ClientEnd || s == nil || e.Own || e.Unserved && s.got == 0 {
		return nil
	}
	if n := m.node(s.node); n.down || n.lastUp > s.opened {
		return nil
	}
	return []string{fmt.Sprintf("client %s lost its stream to %s, which was up: %s", s.client.name, s.node, e.Why)}
}
