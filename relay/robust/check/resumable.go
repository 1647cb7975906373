package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/robust/record"
)

// resumable: what a client holds is not sent to it again. A delta client says what
// it holds when it comes back, to whichever node, and on a stream the node knows.
// A client that is told states of the world can only say a version, which counts
// where versions are digests and it asks for everything (B39). Endpoints follow
// their cluster, even unchanged (E3). A node may send a resource again, once on a stream,
// because clients were sent an error of it before that stream began or not long after, even
// other clients: the client may have come from where that was (C16). Such an error
// may be old: a node that has nothing of the resource then does not see that it is replaced.
// What the control plane removed and the removal guard restores is sent by name without delta
// once more: no response says that a name is removed, and so nodes do not know that the client
// still has it (D6, K16). It is sent by delta to clients that connected after the node heard
// of the removal, which was a moment before.
type resumable struct {
	digests, guard bool // fixed
}

const (
	// unsure is by how much nodes take errors that other nodes have sent for older than they
	// are, and by how much they hear of changes late. Ages are rounded up to seconds on the way to the
	// owner, and once more on the way from it.
	unsure = time.Minute + 2*time.Second
	// restores is how long after a removal the guard restores a resource: 10 s after the node
	// has heard of it, which is up to 5 s later than the first node.
	restores = 15 * time.Second
)

func newResumable(digests, guard bool) *resumable { return &resumable{digests: digests, guard: guard} }

func (*resumable) name() string { return "Resumable" }

func (v *resumable) check(m *Model, e *record.Event) []string {
	s := m.streams[e.Stream]
	switch {
	case e.Kind != record.ClientGot || s == nil:
		return nil
	case e.Delta:
		return v.checkDelta(m, s, e)
	default:
		return v.checkSotW(m, s, e)
	}
}

func (v *resumable) checkDelta(m *Model, s *stream, e *record.Event) (wrong []string) {
	for _, r := range e.Resources {
		held, ok := s.client.held[e.Type][r.Name]
		if !ok || held != r || followsCluster(s, e, r.Name) || takesBack(m, s, e, r.Name) || v.restores(m, s, e, r.Name) {
			continue
		}
		// The origin may have gone away from this state and back to it meanwhile, and the node
		// may have been behind.
		if m.histories[resourceID{kind{s.client.key, e.Type}, r.Name}].returned(r.Serial, s.client.since[e.Type][r.Name]-unsure) {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s@%d of %s is sent again to a client that has it", r.Name, r.Serial, record.ShortType(e.Type)))
	}
	return wrong
}

func (v *resumable) checkSotW(m *Model, s *stream, e *record.Event) []string {
	// States that differ from the client's may have come and gone since the last
	// rest.
	if m.rest == 0 || m.changed[kind{s.client.key, e.Type}] > m.rest {
		return nil
	}
	if _, ever := s.client.version[e.Type]; !ever {
		return nil // it learns that there is nothing
	}
	first := s.of(e.Type).responses == 0
	if first && (!v.digests || !fullState(e.Type) || len(s.client.wants[e.Type]) > 0) {
		return nil
	}
	got := make(map[string]record.Resource, len(e.Resources))
	for _, r := range e.Resources {
		if followsCluster(s, e, r.Name) {
			return nil
		}
		got[r.Name] = r
	}
	if !fullState(e.Type) && len(got) == 0 {
		return nil // it tells what became of names that the client does not have (K15)
	}
	held := s.client.held[e.Type]
	if fullState(e.Type) && !maps.Equal(held, got) {
		return nil
	}
	for n, r := range got {
		// What a client without delta was told by name on another stream cannot be
		// known here.
		if _, told := s.of(e.Type).names[n]; held[n] != r || !fullState(e.Type) && !told {
			return nil
		}
		if v.guard && !fullState(e.Type) && m.histories[resourceID{kind{s.client.key, e.Type}, n}].goneSince(r.Serial) {
			return nil
		}
	}
	back := 0
	for n := range got {
		if takesBack(m, s, e, n) {
			back++
		}
	}
	if back > 0 && (fullState(e.Type) || back == len(got)) {
		return nil
	}
	return []string{fmt.Sprintf("a client that has all of it is sent %s again, version %q where it has %q",
		record.ShortType(e.Type), e.Version, s.client.version[e.Type])}
}

// takesBack reports whether a resource is sent again because the client was sent an error of
// it, or may have been (C16).
func takesBack(m *Model, s *stream, e *record.Event, name string) bool {
	t, id := s.of(e.Type), resourceID{kind{s.client.key, e.Type}, name}
	if t.errors[name] {
		return true
	}
	at, ever := m.failed[id]
	if !ever || at >= s.openedAt+unsure || t.takenBack[name] {
		return false
	}
	t.takenBack[name] = true
	return true
}

// restores reports whether a resource is sent again because the removal guard restores what
// the node knew to be gone when the stream began (K16).
func (v *resumable) restores(m *Model, s *stream, e *record.Event, name string) bool {
	return v.guard && e.Type != listenerType && slices.ContainsFunc(m.withdrawn[resourceID{kind{s.client.key, e.Type}, name}], func(at time.Duration) bool {
		return at <= s.openedAt+time.Second && e.At <= at+restores
	})
}

// followsCluster tells whether endpoints come because their cluster came.
func followsCluster(s *stream, e *record.Event, name string) bool {
	if e.Type != endpointType {
		return false
	}
	cluster, ok := s.of(clusterType).names[name]
	return ok && cluster > s.of(endpointType).names[name]
}
