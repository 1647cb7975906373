package cache

import (
	"fmt"

	"xdsrelay/relay/resource"
)

// Leg is one upstream stream of every key. Together the legs of a key look like
// one origin to its clients (G3).
type Leg struct {
	// Origin names the origin that the leg leads to. Legs with one name lead to
	// the same origin, and are streams of their own there (D11).
	Origin string
	// Names says that only what clients ask for by name comes through it, for
	// operators.
	Names bool
}

// Nobody is what [Config.Route] returns for a name that no leg serves: it does
// not exist, and nobody is asked.
const Nobody = -1

// maxLegs bounds the legs of a key: sets of them are bits of a uint64.
const maxLegs = 64

func (c *Config) checkLegs() error {
	switch {
	case len(c.Legs) == 0:
		c.Legs = []Leg{{}}
	case len(c.Legs) > maxLegs:
		return fmt.Errorf("cache: %d legs, expected at most %d", len(c.Legs), maxLegs)
	}
	if c.Route == nil {
		c.Route = func(*resource.Type, string) int { return 0 }
	}
	return nil
}

// legOf says which leg serves a name. Names that cannot be those of a resource of
// the type are nobody's, whatever the routes (G2, G5).
func (t *Table) legOf(name string) int {
	if resource.Unservable(t.Type, name) != "" {
		return Nobody
	}
	return t.group.cache.cfg.Route(t.Type, name)
}

// tableLeg is what one upstream stream was asked of a type, and has answered.
// Each new name of a table is given the next number; the leg has answered for
// all that it had been asked when a response came (K13). It is guarded by the
// table's mu.
type tableLeg struct {
	asked, answered uint64
	unanswered      map[string]*want    // for which it has not answered, nor anybody sent anything
	wanted          int                 // names and wildcard that are demanded of it
	dirty           map[string]struct{} // names to ask or to drop
	dirtyAll        bool                // the wildcard was joined or left
	askedAll        bool                // it has been asked for the wildcard
	held            bool                // see Group.resumeLocked

	version string // version_info, while it has sent exactly what there is of it (D7)
	source  string // the origin's control_plane.identifier (K7)
}

func newTableLegs(n int) []tableLeg {
	legs := make([]tableLeg, n)
	for i := range legs {
		legs[i].unanswered = make(map[string]*want)
		legs[i].dirty = make(map[string]struct{})
	}
	return legs
}

// hasNews reports whether takeDemand would return something.
func (l *tableLeg) hasNews() bool { return l.dirtyAll || len(l.dirty) > 0 }

// hasAnswered reports whether w is known, as far as its leg can say. What nobody
// serves does not exist, which is an answer.
func (t *Table) hasAnswered(w *want) bool {
	return w.leg == Nobody || w.seq <= t.legs[w.leg].answered
}

// wait says that a subscription waits until a leg has answered up to seq.
type wait struct {
	leg int
	seq uint64
}

// dependLocked notes that s has to wait for an answer to w.
func (t *Table) dependLocked(s *Subscription, w *want) {
	if t.hasAnswered(w) {
		return
	}
	t.waiting[s] = struct{}{}
	for i := range s.waits {
		if s.waits[i].leg == w.leg {
			s.waits[i].seq = max(s.waits[i].seq, w.seq)
			return
		}
	}
	s.waits = append(s.waits, wait{w.leg, w.seq})
}

// waitsForLocked is the set of legs that s waits for.
func (t *Table) waitsForLocked(s *Subscription) (legs uint64) {
	for _, w := range s.waits {
		legs |= 1 << w.leg
	}
	t.eachGlobLocked(s, func(g *glob) {
		if w := t.wants[g.name]; t.openLocked(w, g.name) {
			legs |= 1 << w.leg
		}
	})
	return legs
}
