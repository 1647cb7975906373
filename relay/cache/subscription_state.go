package cache

import (
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/cache/notes"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// SubscriptionState is the newest state of a table as one subscription sees it.
type SubscriptionState struct {
	// Subscription identifies its content in this process; 0: none.
	Subscription uint64
	// Names is the number of its names, NameBytes their total length, and Globs the number of globs
	// among them.
	Names, NameBytes, Globs int
	// Wildcard is whether it has "*", too, and Answer what the control planes have answered for all
	// of it (K13).
	Wildcard WildcardState
	Answer   AnswerState
	// Gen is the newest generation that it may see; never too small.
	Gen uint64
	// Noted is the newest note that it may see, except for heartbeats, and Heartbeat the newest
	// heartbeat; see [Position]. Never too small.
	Noted, Heartbeat uint64
	// Expires is when the next TTL of a resource of the table ends, unless it is renewed; zero:
	// none does.
	Expires time.Time
	// Held says that nothing should be sent yet: the key was idle, its state may be old, and the
	// control plane is being asked. The watcher is woken at the end of that. It says nothing of
	// Answer: what was answered before the key was idle still counts as answered.
	Held bool
	// Private says that it asks for a resource that must not be cached or shared, so that its
	// clients have to move to a private group (K17). It is not set while a control plane is
	// unreachable: nothing could be received there.
	Private bool
	// Unsettled is since when a new upstream stream has been asked for the type and has not
	// answered, so that the rest of a difference may still follow (E5); zero if none. The watcher
	// is woken at the end of that.
	Unsettled time.Time
	Behind    Lag
	// Sole says that one client alone has the subscription at present.
	Sole   bool
	resent notes.Resent // see Basis
}

// WildcardState is what a subscription knows of the wildcard.
type WildcardState uint8

const (
	// NoWildcard: it does not ask for it.
	NoWildcard WildcardState = iota
	// WildcardAwaited: the control plane has not answered for it.
	WildcardAwaited
	// WildcardKnown: the control plane has answered for it.
	WildcardKnown
)

// AnswerState is what the control planes have answered for a subscription.
type AnswerState uint8

const (
	// Awaited: one of them has not answered for all of it.
	Awaited AnswerState = iota
	// OutOfReach: the same, and it is unreachable, so that its answer may not arrive soon.
	OutOfReach
	// Answered: they have answered for all of it (K13).
	Answered
)

// Lag is whether content should not be sent to a client that has presented other content, because that
// is probably newer (K12).
type Lag struct {
	// Until is the end of that; zero if no client need wait.
	Until time.Time
	// ByNameToo says that it applies to SotW clients that ask by name, too, although their
	// versions prove nothing: the tier head is newer than what the whole table was restored from, or
	// the control plane cannot bring what is newer yet.
	ByNameToo bool
}

// IsEmpty reports whether the subscription asks for nothing.
func (h *SubscriptionState) IsEmpty() bool { return h.Names == 0 && !h.HasWildcard() }

// HasWildcard reports whether the subscription asks for the wildcard.
func (h *SubscriptionState) HasWildcard() bool { return h.Wildcard != NoWildcard }

// HasWildcardAlone reports whether the subscription asks for the wildcard and for nothing by name.
func (h *SubscriptionState) HasWildcardAlone() bool { return h.Names == 0 && h.HasWildcard() }

// State returns the state of w's subscription. The cost does not depend on the table's size.
func (t *Table) State(w *Watcher) SubscriptionState {
	t.mu.RLock()
	s := w.sub
	if s == nil {
		t.mu.RUnlock()
		return SubscriptionState{}
	}
	h := SubscriptionState{
		Subscription: s.id, Sole: s.count == 1, Names: len(s.names), NameBytes: s.key.bytes, Globs: s.globs, Wildcard: t.wildcardStateLocked(s),
		Gen: s.gen, Noted: s.noted, Heartbeat: s.heartbeat, Expires: t.store.Deadline(), Held: t.heldLocked(s) || t.group.cache.asleep(),
	}
	for i := range t.streams {
		if at := t.streams[i].confidence.Since(); at.After(h.Unsettled) {
			h.Unsettled = at
		}
	}
	h.resent = t.errored.Resent()
	h.Behind = t.lagLocked(time.Now())
	if t.knownLocked(s) {
		h.Answer = Answered
	}
	if h.Answer == Answered && !s.private {
		t.mu.RUnlock()
		return h
	}
	private, streams := s.private, t.waitsForLocked(s)
	t.mu.RUnlock()
	if h.Answer == Awaited && t.group.unreachable(streams) {
		h.Answer = OutOfReach
	}
	h.Private = private && !t.group.unreachable(anyStream)
	return h
}

func (t *Table) wildcardStateLocked(s *Subscription) WildcardState {
	switch {
	case !s.key.wildcard:
		return NoWildcard
	case t.demand.WildcardAnswered():
		return WildcardKnown
	}
	return WildcardAwaited
}

// Reconcile compares what a client claims to have with what it should see (B37). It returns the
// names that must be sent, because they changed, are new to the client, or are removed; the
// position from which the client then follows, which is before all notes; and the claims about
// names of which nothing is known yet, in canonical form. There may be very many names, so it is
// done in steps: concurrent changes are after that position, so the client gets them in any case. v,
// which may be nil, is the view that the client should see.
func (t *Table) Reconcile(w *Watcher, v *View, claims []resource.Held) (send *Names, at Position, rest []resource.Held) {
	t.mu.RLock()
	s := w.sub
	if s == nil {
		t.mu.RUnlock()
		return nil, Start, claims
	}
	gen := v.reaches(s.gen)
	at = Position{Gen: gen, Removed: gen}
	r := reconciling{table: t, sub: s, view: v, names: []string{}, kept: children{table: t}}
	r.whole = r.countLocked()
	t.mu.RUnlock()
	i := 0
	for some := range slices.Chunk(claims, t.group.cache.step) {
		t.mu.RLock()
		for _, c := range some {
			if r.claimed == nil && !r.matchesLocked(c) {
				r.listLocked(claims, i)
			}
			if r.claimed != nil {
				r.claimLocked(c)
			}
			i++
		}
		t.mu.RUnlock()
	}
	if r.claimed == nil {
		if r.whole && r.matched == r.expected {
			return nil, at, nil
		}
		t.mu.RLock()
		r.listLocked(claims, len(claims))
		t.mu.RUnlock()
	}
	see := r.seeLocked
	if v != nil {
		see = v.without(see)
		t.mu.RLock()
		v.each(r.seeLocked)
		t.mu.RUnlock()
	}
	if s.key.wildcard {
		for _, e := range t.entriesInSteps(t.mu.reading()) {
			see(e)
		}
	} else {
		s.eachNamed(see)
	}
	r.claimed = nil // it takes megabytes, and so does what follows
	// Heartbeats that the client may have missed keep its resources alive.
	return NewNames(r.names), at, ownTexts(r.rest, len(claims))
}

// ownTexts gives claims that are kept, of all that a client made, memory of their own if they are few:
// the texts of all claims of a request are in one piece.
func ownTexts(kept []resource.Held, all int) []resource.Held {
	if len(kept) < all/2 {
		for i, h := range kept {
			kept[i] = resource.Held{Name: strings.Clone(h.Name), Version: strings.Clone(h.Version)}
		}
	}
	return kept
}

// reconciling is one call of Reconcile. Most clients return with exactly what they should have, which
// a sum over their claims shows. Only others need a list of what they claim.
type reconciling struct {
	table *Table
	sub   *Subscription
	view  *View // nil for none
	// whole says that expected is all that a client of sub should have; matched is what it claims.
	whole             bool
	matched, expected table.Sum
	claimed           map[*table.Entry]struct{} // nil while all claims match
	names             []string                  // to be sent
	rest              []resource.Held
	kept              children
}

// countLocked sets expected. It returns false where that would have to be searched for, or is not all:
// names of which some are absent, aliases, globs, and names next to the wildcard.
func (r *reconciling) countLocked() bool {
	t, s := r.table, r.sub
	r.expected.Digest, r.expected.Live = t.sumInLocked(s, r.view)
	if s.key.wildcard {
		return len(s.names) == 0
	}
	return r.expected.Live == len(s.names) && s.globs == 0 && !t.store.Aliased()
}

// matchesLocked reports whether the client should have just what it claims, and counts that.
func (r *reconciling) matchesLocked(c resource.Held) bool {
	if !r.whole {
		return false
	}
	e := r.table.entryLocked(r.view, resource.Canonical(c.Name))
	if e == nil || !r.hasLocked(e) || e.Res.Version != c.Version || r.table.takenBackLocked(e.Name) {
		return false
	}
	r.matched.Live++
	r.matched.Digest = r.matched.Digest.Add(e.Res.Member())
	return true
}

// listLocked lists the first n claims, which all match.
func (r *reconciling) listLocked(claims []resource.Held, n int) {
	r.claimed = make(map[*table.Entry]struct{}, len(claims))
	for _, c := range claims[:n] {
		if e := r.table.entryLocked(r.view, resource.Canonical(c.Name)); e != nil {
			r.claimed[e] = struct{}{}
		}
	}
}

func (r *reconciling) claimLocked(c resource.Held) {
	t, s := r.table, r.sub
	c.Name = resource.Canonical(c.Name)
	e := t.entryLocked(r.view, c.Name) // not an alias: a client has resources by their names
	_, named := s.names[c.Name]
	there, byName := false, false
	if e != nil {
		there, _ = s.seesLocked(e)
		byName = s.namesLocked(e)
	}
	unjudged := !r.view.replaces(c.Name) && s.key.wildcard && !byName && !t.coversLocked(s, c.Name) && !t.judgedLocked(c.Name)
	switch {
	case there && t.takenBackLocked(c.Name):
		r.names = append(r.names, c.Name) // only the resource reverts the error (C16)
	case e == nil && (named || t.opensLocked(s, c.Name)), unjudged:
		r.rest = append(r.rest, c)
		return
	case there && e.Res.Version == c.Version:
	case !there && !r.view.replaces(c.Name) && (t.doubtsNameLocked(s, c.Name) || r.kept.mayHaveLocked(c.Name)):
		r.rest = append(r.rest, c) // it may be newer than what is known
	case e != nil:
		r.names = append(r.names, e.Name) // else the claim would stay, with its version
	default:
		r.names = append(r.names, strings.Clone(c.Name)) // see ownTexts
	}
	if e != nil {
		r.claimed[e] = struct{}{}
	}
}

// seeLocked adds e if the client may not have it.
func (r *reconciling) seeLocked(e *table.Entry) {
	there, _ := r.sub.seesLocked(e)
	if _, ok := r.claimed[e]; !ok && (there || r.table.missesLocked(r.sub, e) || r.view.replaces(e.Name) && r.sub.meansLocked(e)) { // the removal must be sent, too (B34)
		r.names = append(r.names, e.Name)
	}
}

// Gone returns those of claims that turned out not to exist: the control plane has answered, and
// there is no such resource. rest are those for which that is still unknown; there are none once
// the subscription is known. Then silent are those of names that the client asks for and the control
// plane has said nothing of, so that they count as held. It is done in steps like Reconcile, and in the
// same view.
func (t *Table) Gone(w *Watcher, v *View, claims []resource.Held) (gone *Names, rest, silent []resource.Held) {
	t.mu.RLock()
	s := w.sub
	known := s != nil && t.knownLocked(s)
	t.mu.RUnlock()
	if s == nil {
		return nil, nil, nil
	}
	var names []string
	kept := children{table: t}
	for some := range slices.Chunk(claims, t.group.cache.step) {
		t.mu.RLock()
		for _, c := range some {
			switch t.judgeLocked(s, v, known, c.Name, &kept) {
			case claimGone:
				names = append(names, strings.Clone(c.Name)) // see ownTexts
			case claimOpen:
				rest = append(rest, c)
			case claimSilent:
				silent = append(silent, c)
			}
		}
		t.mu.RUnlock()
	}
	return NewNames(names), ownTexts(rest, len(claims)), ownTexts(silent, len(claims))
}

// claimState is what is known of a resource that a client claims to have.
type claimState uint8

const (
	claimStands claimState = iota // it exists, or no answer says that it was removed
	claimGone
	claimOpen
	claimSilent // it stands, and nothing is known of its name
)

// judgeLocked returns what is known of a name that a client with s claims. known says that the
// control planes have answered for all that s asks for, and kept what parents that are held back
// refer to.
func (t *Table) judgeLocked(s *Subscription, v *View, known bool, name string, kept *children) claimState {
	e := t.entryLocked(v, name)
	_, named := s.names[name]
	covered := t.coversLocked(s, name)
	switch {
	case e != nil && s.seesNowLocked(e): // sent as a change
	case v.replaces(name):
		return claimGone
	case t.doubtsNameLocked(s, name):
		return claimOpen
	case kept.mayHaveLocked(name):
		t.leaveOpen()
		return claimOpen
	case e != nil && s.namesLocked(e):
		return claimGone
	case !known && named, t.opensLocked(s, name):
		return claimOpen
	case !s.key.wildcard && !covered && named && e == nil: // no answer says that it was removed (C11)
		return claimSilent
	case !s.key.wildcard && !covered:
	case !covered && !t.judgedLocked(name):
		return claimOpen
	case e == nil || !e.Member:
		return claimGone
	}
	return claimStands
}

// doubtsLocked reports whether what s sees may be older than what a returning client has: it was
// restored, or the key was idle or another node's, and a stream of s has not answered since.
// Nothing counts as removed because of it (K14).
func (t *Table) doubtsLocked(s *Subscription) bool {
	for _, stream := range t.streamsOfLocked(s) {
		if stream.confidence.Unconfirmed() {
			return true
		}
	}
	return false
}

// doubtsNameLocked is doubtsLocked for one canonical name. The control plane's silence about it is
// an answer, too, and may be the only one: a delta server without any of the requested resources
// need not answer.
func (t *Table) doubtsNameLocked(s *Subscription, name string) bool {
	if t.isAssumedLocked(name) {
		return true
	}
	if w := t.demand.Get(name); w != nil && w.Stream() != Nobody && !s.key.wildcard && t.streams[w.Stream()].names.IsSilent(name) {
		return false
	}
	return t.doubtsLocked(s)
}

// noteAbsentLocked records names that a stream's control plane did not answer for, and wakes
// clients that may claim to have them. That is needed even if the names were absent before, because
// nothing else would wake them.
func (t *Table) noteAbsentLocked(by int, names []string) {
	stream := &t.streams[by]
	if len(names) == 0 || !stream.confidence.Unconfirmed() {
		return
	}
	for _, n := range names {
		stream.names.Silence(resource.Canonical(n))
	}
	for _, s := range t.subs {
		t.woken[s] = struct{}{}
	}
}

// seesNowLocked reports whether s sees a resource in e.
func (s *Subscription) seesNowLocked(e *table.Entry) bool {
	there, _ := s.seesLocked(e)
	return there
}

// coversLocked reports whether s asks for the glob that covers the canonical name.
func (t *Table) coversLocked(s *Subscription, name string) bool {
	if s.globs == 0 {
		return false
	}
	_, ok := s.names[resource.GlobOf(name)]
	return ok
}

// opensLocked is coversLocked while that glob waits for an answer, and s has no wildcard of the
// same stream that was answered.
func (t *Table) opensLocked(s *Subscription, name string) bool {
	if !t.coversLocked(s, name) {
		return false
	}
	g := resource.GlobOf(name)
	w := t.demand.Get(g)
	return t.demand.Open(w, g) && !(s.key.wildcard && w.Stream() == t.demand.Wildcard().Stream() && t.demand.WildcardAnswered())
}

// Reaches reports whether the table has reached generation gen.
func (t *Table) Reaches(gen uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return gen <= t.store.Gen()
}
