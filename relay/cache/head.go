package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// Head is the newest state of a table as one subscription sees it.
type Head struct {
	// Subscription identifies its content in this process; 0: none.
	Subscription uint64
	// Names says how many names it has, NameBytes how long they are together, and
	// Globs how many of them are globs; Wildcard whether it has "*" too.
	Names, NameBytes, Globs int
	Wildcard                bool
	// Gen is the newest generation that it may see; never too small.
	Gen uint64
	// Noted is the newest note that it may see, but for heartbeats, and Beat the
	// newest heartbeat; see [Position]. Never too small.
	Noted, Beat uint64
	// Expires is when the first resource of the table comes to its end, if
	// nothing is heard of it; zero: none does.
	Expires time.Time
	// Known says that the origins have answered for all of it (K13),
	// WildcardKnown that they have for the wildcard.
	Known, WildcardKnown bool
	// Hopeless says that an origin that has not answered is out of reach, so
	// that its answer may not come soon.
	Hopeless bool
	// Held says that nothing should be told yet: the key was idle, its state
	// may be old, and the origin is being asked. The watcher is woken when
	// that is over.
	Held bool
	// Private says that it asks for a resource that must not be kept, or shared,
	// so that its clients have to go where they are alone (K17). It is not said
	// while an origin is out of reach: nothing could be got there.
	Private bool
	// Unsettled is since when a new upstream stream has been asked for the type
	// and has not answered, so that the rest of a difference may still be to
	// come (E5); zero if none. The watcher is woken when that is over.
	Unsettled time.Time
	// Behind is until when what there is should not be told to who says that it
	// has something else, since that is probably newer (K12); zero if it is not.
	Behind time.Time
	// Proven says that this holds for clients that ask by name, too: the tier head is newer
	// than what all of the table was restored from.
	Proven bool
	shown  shown // see Spares
}

// Head tells where w's subscription stands. It costs the same whatever the
// table's size.
func (t *Table) Head(w *Watcher) Head {
	t.mu.RLock()
	s := w.sub
	if s == nil {
		t.mu.RUnlock()
		return Head{}
	}
	h := Head{
		Subscription: s.id, Names: len(s.names), NameBytes: s.key.bytes, Globs: s.globs, Wildcard: s.key.wildcard,
		Gen: s.gen, Noted: s.noted, Beat: s.beat, Expires: t.deadlines.next(), Known: t.knownLocked(s), WildcardKnown: s.key.wildcard && t.wildKnownLocked(), Held: t.heldLocked(s) || t.group.cache.asleep(),
	}
	for i := range t.legs {
		if at := t.legs[i].unsettled; at.After(h.Unsettled) {
			h.Unsettled = at
		}
	}
	h.Behind, h.Proven, h.shown = t.behindUntilLocked(), t.provenLocked(), t.errored.shown
	if h.Known && !s.private {
		t.mu.RUnlock()
		return h
	}
	private, legs := s.private, t.waitsForLocked(s)
	t.mu.RUnlock()
	h.Hopeless = !h.Known && t.group.unreachable(legs)
	h.Private = private && !t.group.unreachable(anyLeg)
	return h
}

// Reconcile compares what a client says it holds with what it should see
// (B37). It returns the names that it has to be told, since they changed, are
// new to it, or are gone; the position from which it then follows, which is
// before all notes; and the claims about names of which nothing is known yet, in
// canonical form. There may be very many names, so it is done in steps: what changes meanwhile
// is after that position, so that the client gets it in any case.
func (t *Table) Reconcile(w *Watcher, claims []resource.Held) (tell *Names, at Position, rest []resource.Held) {
	t.mu.RLock()
	s := w.sub
	if s == nil {
		t.mu.RUnlock()
		return nil, Start, claims
	}
	at = Position{Gen: s.gen, Removed: s.gen}
	t.mu.RUnlock()
	r := reconciling{table: t, sub: s, claimed: make(map[*entry]struct{}, len(claims)), names: []string{}, kept: children{table: t}}
	for some := range slices.Chunk(claims, t.group.cache.step) {
		t.mu.RLock()
		for _, c := range some {
			r.claimLocked(c)
		}
		t.mu.RUnlock()
	}
	if s.key.wildcard {
		for _, e := range inSteps(t, t.mu.reading(), &t.entries) {
			r.seeLocked(e)
		}
	} else {
		s.eachNamed(r.seeLocked)
	}
	r.claimed = nil // it takes megabytes, and so does what follows
	// What it has lives on by heartbeats that it may have missed.
	return NewNames(r.names), at, r.rest
}

// reconciling is one call of Reconcile.
type reconciling struct {
	table   *Table
	sub     *Subscription
	claimed map[*entry]struct{}
	names   []string // to be told
	rest    []resource.Held
	kept    children
}

func (r *reconciling) claimLocked(c resource.Held) {
	t, s := r.table, r.sub
	c.Name = resource.Canonical(c.Name)
	e := t.entries[c.Name] // not an alias: a client holds resources by their names
	_, named := s.names[c.Name]
	there, byName := false, false
	if e != nil {
		there, _ = s.seesLocked(e)
		byName = s.namesLocked(e)
	}
	unjudged := s.key.wildcard && !byName && !t.coversLocked(s, c.Name) && !t.judgedLocked(c.Name)
	switch {
	case there && t.takenBackLocked(c.Name):
		r.names = append(r.names, c.Name) // only the resource takes the error back (C16)
	case e == nil && (named || t.opensLocked(s, c.Name)), unjudged:
		r.rest = append(r.rest, c)
		return
	case there && e.res.Version == c.Version:
	case !there && (t.doubtsNameLocked(s, c.Name) || r.kept.mayHaveLocked(c.Name)):
		r.rest = append(r.rest, c) // it may be newer than what is known
	case e != nil:
		r.names = append(r.names, e.name) // else the claim would live on, with its version
	default:
		r.names = append(r.names, c.Name)
	}
	if e != nil {
		r.claimed[e] = struct{}{}
	}
}

// seeLocked looks at what the client may not have.
func (r *reconciling) seeLocked(e *entry) {
	there, _ := r.sub.seesLocked(e)
	if _, ok := r.claimed[e]; !ok && (there || r.table.missesLocked(r.sub, e)) { // B34
		r.names = append(r.names, e.name)
	}
}

// Gone returns those of claims that turned out not to exist: the origin has
// answered, and there is no such resource. rest are those of which that cannot be
// said yet; where the head is known, there are none. It is done in steps like Reconcile.
func (t *Table) Gone(w *Watcher, claims []resource.Held) (gone *Names, rest []resource.Held) {
	t.mu.RLock()
	s := w.sub
	known := s != nil && t.knownLocked(s)
	t.mu.RUnlock()
	if s == nil {
		return nil, nil
	}
	var names []string
	kept := children{table: t}
	for some := range slices.Chunk(claims, t.group.cache.step) {
		t.mu.RLock()
		for _, c := range some {
			switch t.judgeLocked(s, known, c.Name, &kept) {
			case claimGone:
				names = append(names, c.Name)
			case claimOpen:
				rest = append(rest, c)
			}
		}
		t.mu.RUnlock()
	}
	return NewNames(names), rest
}

// claimState is what is known of a resource that a client says it holds.
type claimState uint8

const (
	claimStands claimState = iota // it is there, or nobody says that it has gone
	claimGone
	claimOpen
)

// judgeLocked says what is known of a name that a client with s claims. known says that the
// origins have answered for all that s asks for, and kept what parents that are held back
// refer to.
func (t *Table) judgeLocked(s *Subscription, known bool, name string, kept *children) claimState {
	e := t.entries[name]
	_, named := s.names[name]
	covered := t.coversLocked(s, name)
	switch {
	case e != nil && s.seesNowLocked(e): // told as a change
	case t.doubtsNameLocked(s, name):
		return claimOpen
	case kept.mayHaveLocked(name):
		t.leaveOpen()
		return claimOpen
	case e != nil && s.namesLocked(e):
		return claimGone
	case !known && named, t.opensLocked(s, name):
		return claimOpen
	case !s.key.wildcard && !covered: // nobody says that it is gone (C11)
	case !covered && !t.judgedLocked(name):
		return claimOpen
	case e == nil || !e.member:
		return claimGone
	}
	return claimStands
}

// doubtsLocked reports whether what s sees may be older than what a client has that
// comes back: it was restored, or the key was idle or another node's, and a leg of s has
// not answered since. Nothing is gone by that (K14).
func (t *Table) doubtsLocked(s *Subscription) bool {
	for leg := range t.legsOfLocked(s) {
		if leg.stale || leg.doubted {
			return true
		}
	}
	return false
}

// doubtsNameLocked is doubtsLocked for one canonical name. The origin's silence about
// it is an answer, too, and may be the only one: a delta server that has nothing of what
// it is asked for need not say so.
func (t *Table) doubtsNameLocked(s *Subscription, name string) bool {
	if t.isAssumedLocked(name) {
		return true
	}
	if w := t.wants[name]; w != nil && w.leg != Nobody && !s.key.wildcard {
		if _, is := t.legs[w.leg].absent[name]; is {
			return false
		}
	}
	return t.doubtsLocked(s)
}

// noteAbsentLocked notes names that a leg has been silent about, and wakes who may
// claim to hold them: where they were absent before, nothing changes by that.
func (t *Table) noteAbsentLocked(by int, names []string) {
	leg := &t.legs[by]
	if len(names) == 0 || !leg.stale && !leg.doubted {
		return
	}
	if leg.absent == nil {
		leg.absent = make(map[string]struct{})
	}
	for _, n := range names {
		leg.absent[resource.Canonical(n)] = struct{}{}
	}
	for _, s := range t.subs {
		t.woken[s] = struct{}{}
	}
}

// seesNowLocked reports whether s sees a resource that is there.
func (s *Subscription) seesNowLocked(e *entry) bool {
	there, _ := s.seesLocked(e)
	return there
}

// coversLocked reports whether s wants the glob that covers the canonical name.
func (t *Table) coversLocked(s *Subscription, name string) bool {
	if s.globs == 0 {
		return false
	}
	_, ok := s.names[resource.GlobOf(name)]
	return ok
}

// opensLocked is coversLocked while that glob waits for an answer, and s has no
// wildcard of the same leg that was answered.
func (t *Table) opensLocked(s *Subscription, name string) bool {
	if !t.coversLocked(s, name) {
		return false
	}
	g := resource.GlobOf(name)
	w := t.wants[g]
	return t.openLocked(w, g) && !(s.key.wildcard && w.leg == t.wild.leg && t.wildKnownLocked())
}

// Reaches reports whether the table has come to generation gen.
func (t *Table) Reaches(gen uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return gen <= t.gen
}
