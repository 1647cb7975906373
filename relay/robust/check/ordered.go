package check

import (
	"fmt"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// ordered: on a stream, a resource goes through the states that it had at the
// origin in their order. States may be left out; none comes again unless the origin
// went back to it.
type ordered struct {
	guard bool                           // fixed
	at    map[*stream]map[resourceID]int // how far in its history a resource is
}

func newOrdered(guard bool) *ordered {
	return &ordered{guard: guard, at: make(map[*stream]map[resourceID]int)}
}

func (*ordered) name() string { return "Ordered" }

func (v *ordered) check(m *Model, e *record.Event) (wrong []string) {
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
		} else if before := m.servedBefore(id, at[id]); v.guard && e.Type != xdstest.ListenerType && before >= 0 && h.serials[at[id]] == absent && h.serials[before] == serial {
			at[id] = before // it stays with what refers to it, which nothing does to a listener
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

func said(serial int) string {
	if serial == absent {
		return "its removal"
	}
	return fmt.Sprintf("@%d", serial)
}
