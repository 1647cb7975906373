package check

import (
	"fmt"
	"time"

	"xdsrelay/relay/robust/record"
)

// ordered: on a stream, a resource goes through the states that it had at the
// origin in their order. States may be left out; none comes again unless the origin
// went back to it. The removal guard may give back what was removed, as nodes had it
// last: what clusters and listeners refer to, and listeners that other nodes hold back.
type ordered struct {
	hold  time.Duration                  // fixed: of the removal guard, 0 without it
	at    map[*stream]map[resourceID]int // how far in its history a resource is
	asked map[string]time.Duration       // by key: when a node last opened a stream to the control plane
}

func newOrdered(hold time.Duration) *ordered {
	return &ordered{hold: hold, at: make(map[*stream]map[resourceID]int), asked: make(map[string]time.Duration)}
}

func (*ordered) name() string { return "Ordered" }

func (v *ordered) check(m *Model, e *record.Event) (wrong []string) {
	if e.Kind == record.OriginOpen {
		v.asked[e.Key] = e.At
		return nil
	}
	s := m.streams[e.Stream]
	switch {
	case s == nil:
		return nil
	case e.Kind == record.ClientEnd:
		delete(v.at, s)
		return nil
	case e.Kind != record.ClientGot:
		return nil
	}
	at := v.at[s]
	if at == nil {
		at = make(map[resourceID]int)
		v.at[s] = at
	}
	step := func(name string, serial int) {
		id := resourceID{kind{s.client.key, e.Type}, name}
		h := m.histories[id]
		if to := h.find(serial, at[id]); to >= 0 {
			at[id] = to
		} else if before := h.heldBefore(at[id], serial); before >= 0 && h.serials[at[id]] == absent && v.givesBack(m, id, e.At) {
			at[id] = before
		} else if before := h.find(serial, 0); before >= 0 {
			wrong = append(wrong, fmt.Sprintf("%s of %s is back at %s, after %s", name, record.ShortType(e.Type), said(serial), said(h.serials[at[id]])))
		}
	}
	for _, r := range e.Resources {
		step(r.Name, r.Serial)
	}
	for _, n := range s.client.gone(e) {
		step(n, absent)
	}
	return wrong
}

// givesBack reports whether the guard may give back what was removed. Nothing refers to
// listeners: they are held back where more than half of them went at once, and a node that
// has nothing, and so removes them, may meet one that holds them back. A node that was restarted
// with its last known good state holds them back from when it asks the control plane.
func (v *ordered) givesBack(m *Model, id resourceID, now time.Duration) bool {
	if v.hold == 0 || id.typeURL != listenerType {
		return v.hold > 0
	}
	left := m.histories[id]
	if left.last() != absent {
		return false
	}
	at := left.leftAt()
	gone, all := 0, 0
	for _, name := range m.names[id.kind] {
		h := m.histories[resourceID{id.kind, name}]
		switch {
		case h.last() != absent || h.leftAt() > at+time.Second: // it was there
			all++
		case h.leftAt() >= at-time.Second:
			gone, all = gone+1, all+1
		}
	}
	return now < max(at, v.asked[id.key])+v.hold && 2*gone > all
}

func said(serial int) string {
	if serial == absent {
		return "its removal"
	}
	return fmt.Sprintf("@%d", serial)
}
