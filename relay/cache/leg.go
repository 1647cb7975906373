package cache

import (
	"fmt"
	"slices"
	"strings"
	"time"

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
	// MaxNames bounds what the names of a type that a key asks the leg for take in a
	// request, in bytes. 0 means no bound.
	MaxNames int
}

// String names the leg among those of a key.
func (l Leg) String() string {
	if l.Names {
		return l.Origin + "/names"
	}
	return l.Origin
}

// is reports whether both are the same leg, whatever its bounds are: those may change
// between two runs of the program.
func (l Leg) is(other Leg) bool { return l.Origin == other.Origin && l.Names == other.Names }

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
	unanswered      map[string]*want  // for which it has not answered, nor anybody sent anything; see openLocked
	outdated        bool              // it has answered for some of these
	wanted          int               // names and wildcard that are demanded of it
	size            int               // what these names take in a request, in bytes
	near            bool              // that is close to the bound, and was reported
	dirty           map[string]told   // names to ask or to drop
	turn            uint32            // how often that was taken
	dirtyAll        bool              // the wildcard was joined or left
	askedAll        bool              // it has been asked for the wildcard
	postponed       bool              // it is not asked on the present stream before other nodes are; see first.go
	strays          map[string]string // as the origin spells them
	differences     bool              // its origin keeps account of what it has sent
	held            bool              // see Group.resumeLocked
	stale           bool              // it holds what was restored, and has not answered since; see Group.Revive
	restoredAsOf    time.Time         // while it is stale: the Kept.AsOf of that
	mirroredAsOf    time.Time         // the Update.AsOf of the last answer
	claims          uint64            // see Feed.Claims
	doubted         bool              // it holds what may be old, and has not answered since; see Feed.Doubt
	idled           bool              // it holds resources from before the key was idle, and has not answered since
	slept           time.Time         // since when the process slept, if it has not answered since; see Cache.Slept
	unsettled       time.Time         // since when a new stream has not answered, or the owner has more to say
	confirmedTo     time.Time         // since then no stream has answered, nor been silent for long
	// absent are canonical names that do not exist, since the origin has said nothing of
	// them when it was asked, while the leg was stale or doubted; nil otherwise.
	absent map[string]struct{}
	// assumed are canonical names that count as absent without an answer; see assumed.go.
	assumed map[string]struct{}

	live    int                    // resources that it holds
	denied  int                    // and that it refuses to show
	digest  resource.Digest        // of its copies of them
	guard   guard                  // removals of these that are held back (K16)
	removed map[string]time.Time   // when resources of canonical names were removed; see noteRemovedLocked
	version string                 // version_info, while that is exactly what a SotW origin sent (D7)
	system  resource.SystemVersion // the newest of a delta control plane, whether or not it still holds that
	source  string                 // the origin's control_plane.identifier (K7)
	speaker speaker                // whose that is
}

// speaker is who has answered a leg: a server of the origin, or a node that passes
// on what that server says.
type speaker struct {
	server string
	mirror bool
}

// systemVersion is how the control plane calls just what the leg holds; empty where that
// is not known.
func (l *tableLeg) systemVersion() resource.SystemVersion {
	if l.system.Digest != l.digest {
		return resource.SystemVersion{}
	}
	return l.system
}

// heard notes by what name who answered calls itself. Who says nothing may have said
// it before, but another one has not.
func (l *tableLeg) heard(u Update, server string) {
	now := speaker{server, u.Mirror}
	if u.Source != "" || now != l.speaker && !u.Partial {
		l.source, l.speaker = u.Source, now
	}
}

func newTableLegs(n int) []tableLeg {
	legs := make([]tableLeg, n)
	for i := range legs {
		legs[i].unanswered = make(map[string]*want)
		legs[i].dirty = make(map[string]told)
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

// leanOn notes that s wants n more of the leg of w.
func (s *Subscription) leanOn(w *want, n int) {
	if w.leg == Nobody || len(s.table.legs) == 1 {
		return
	}
	if s.per == nil {
		s.per = make([]int, len(s.table.legs))
	}
	s.per[w.leg] += n
}

// oneOriginLocked reports whether two legs lead to the same origin.
func (t *Table) oneOriginLocked(a, b int) bool {
	legs := t.group.cache.cfg.Legs
	return a == b || a != Nobody && b != Nobody && legs[a].Origin == legs[b].Origin
}

// judgedLocked reports whether it is known if the wildcard set has a member of
// that name (K13): the set has been answered for, its leg has said something of
// the name, or another origin serves it.
func (t *Table) judgedLocked(name string) bool {
	if e := t.entries[name]; e != nil && e.wild > 0 || t.wildJudgedLocked() {
		return true
	}
	leg := t.legOf(name)
	return leg == Nobody || !t.oneOriginLocked(leg, t.wild.leg)
}

// wildJudgedLocked reports whether what the wildcard set lacks does not exist: it has
// been answered for, and not by what may be old (K14).
func (t *Table) wildJudgedLocked() bool {
	leg := t.wildLeg()
	return t.wildKnownLocked() && leg != nil && !leg.stale && !leg.doubted
}

// legsOfLocked goes through the legs of which s wants something.
func (t *Table) legsOfLocked(s *Subscription) func(yield func(*tableLeg) bool) {
	return func(yield func(*tableLeg) bool) {
		for i := range t.legs {
			if len(t.legs) > 1 && (len(s.per) == 0 || s.per[i] == 0) {
				continue
			}
			if !yield(&t.legs[i]) {
				return
			}
		}
	}
}

// heldLocked reports whether a leg of s may still hold old state.
func (t *Table) heldLocked(s *Subscription) bool {
	for leg := range t.legsOfLocked(s) {
		if leg.held {
			return true
		}
	}
	return false
}

// onlyLegLocked is the leg that serves all that s wants, nil if there are several.
func (t *Table) onlyLegLocked(s *Subscription) (only *tableLeg) {
	for leg := range t.legsOfLocked(s) {
		if only != nil {
			return nil
		}
		only = leg
	}
	return only
}

// sourceLocked names the origins of what s sees (K7).
func (t *Table) sourceLocked(s *Subscription) (source string) {
	for leg := range t.legsOfLocked(s) {
		switch {
		case source == "":
			source = leg.source
		case leg.source != "" && !slices.Contains(strings.Split(source, ", "), leg.source):
			source += ", " + leg.source
		}
	}
	return source
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
