package check

import (
	"fmt"
	"time"

	"xdsrelay/relay/robust/record"
)

// deleteOnlyIfDeleted: nothing is taken from a client, and nothing is told to be
// absent, but what the origin was without, once it had what the client holds. The
// first answer about a type from a node that a client moves to may be an older state of the
// control plane, if the node does not know of a newer one within its time (K12). The removals of
// that answer may follow its other content: they wait until types that may refer to them have been
// answered (E5).
//
// What the control plane is silent about for [absentAfter] does not exist, as clients have it, too
// (C12): on a busy machine it may take as long for its first answers, and a connection may have
// died without a notice. So a delta client may be told that of names that it does not hold.
type deleteOnlyIfDeleted struct{}

const (
	// absentAfter is upstream.resource_timeout of the nodes.
	absentAfter = 15 * time.Second
	// removalsWait is how long removals of the first answer may wait for other types.
	removalsWait = 5 * time.Second
)

func (deleteOnlyIfDeleted) name() string { return "DeleteOnlyIfDeleted" }

func (deleteOnlyIfDeleted) check(m *Model, e *record.Event) (wrong []string) {
	s := m.streams[e.Stream]
	if e.Kind != record.ClientGot || s == nil {
		return nil
	}
	for _, n := range s.client.gone(e) {
		h := m.histories[resourceID{kind{s.client.key, e.Type}, n}]
		from := 0
		held, ok := s.client.held[e.Type][n]
		if !ok && m.silent(s, e.Type, e.At) {
			continue
		}
		t := s.of(e.Type)
		if _, sent := t.names[n]; ok && t.responses > 0 && (sent || e.At > t.first+removalsWait) {
			from = max(0, h.find(held.Serial, 0))
		}
		if h.find(absent, from) < 0 {
			wrong = append(wrong, fmt.Sprintf("%s of %s is taken away, and the origin never removed it", n, record.ShortType(e.Type)))
		}
	}
	return wrong
}
