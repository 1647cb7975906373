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

// WildcardState is what is known of the wildcard of a subscription, or of a table.
type WildcardState uint8

const (
	// NoWildcard: it does not ask for it, or no client of the table does.
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
		Subscription: s.id, Sole: s.count == 1, Names: len(s.names), NameBytes: s.key.bytes, Globs: s.globs, Wildcard: t.core.wildcardState(s.key.wildcard),
		Gen: s.gen, Noted: s.noted, Heartbeat: s.heartbeat, Expires: t.core.store.Deadline(), Held: t.core.held(s) || t.group.cache.asleep(),
	}
	for i := range t.core.streams {
		if at := t.core.streams[i].confidence.Since(); at.After(h.Unsettled) {
			h.Unsettled = at
		}
	}
	h.resent = t.core.errored.Resent()
	h.Behind = t.core.lag(time.Now())
	if t.core.known(s) {
		h.Answer = Answered
	}
	if h.Answer == Answered && !s.private {
		t.mu.RUnlock()
		return h
	}
	private, streams := s.private, t.core.waitsFor(s)
	t.mu.RUnlock()
	if h.Answer == Awaited && t.group.unreachable(streams) {
		h.Answer = OutOfReach
	}
	h.Private = private && !t.group.unreachable(anyStream)
	return h
}

// wildcardState is the state of the wildcard, if it is asked for.
func (t *core) wildcardState(asked bool) WildcardState {
	switch {
	case !asked:
		return NoWildcard
	case t.demand.WildcardAnswered():
		return WildcardKnown
	}
	return WildcardAwaited
}

// Gone returns those of claims that turned out not to exist: the control plane has answered, and
// there is no such resource. rest are those for which that is still unknown; there are none once
// the subscription is known. Then silent are those of names that the client asks for and the control
// plane has said nothing of, so that they count as held. It is done in steps like Reconcile, and in the
// same view.
func (t *Table) Gone(w *Watcher, v *View, claims []resource.Held) (gone *Names, rest, silent []resource.Held) {
	t.mu.RLock()
	s := w.sub
	known := s != nil && t.core.known(s)
	t.mu.RUnlock()
	if s == nil {
		return nil, nil, nil
	}
	var names []string
	kept := children{table: &t.core}
	for some := range slices.Chunk(claims, t.group.cache.step) {
		t.mu.RLock()
		for _, c := range some {
			switch t.core.judge(s, v, known, c.Name, &kept) {
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

// judge returns what is known of a name that a client with s claims. known says that the
// control planes have answered for all that s asks for, and kept what parents that are held back
// refer to.
func (t *core) judge(s *Subscription, v *View, known bool, name string, kept *children) claimState {
	e := t.entry(v, name)
	_, named := s.names[name]
	covered := t.covers(s, name)
	switch {
	case e != nil && s.seesNow(e): // sent as a change
	case v.replaces(name):
		return claimGone
	case t.doubtsName(s, name):
		return claimOpen
	case kept.mayHave(name):
		t.leaveOpen()
		return claimOpen
	case e != nil && s.asksFor(e):
		return claimGone
	case !known && named, t.opens(s, name):
		return claimOpen
	case !s.key.wildcard && !covered && named && e == nil: // no answer says that it was removed (C11)
		return claimSilent
	case !s.key.wildcard && !covered:
	case !covered && !t.judged(name):
		return claimOpen
	case e == nil || !e.Member:
		return claimGone
	}
	return claimStands
}

// doubts reports whether what s sees may be older than what a returning client has: it was
// restored, or the key was idle or another node's, and a stream of s has not answered since.
// Nothing counts as removed because of it (K14).
func (t *core) doubts(s *Subscription) bool {
	for _, stream := range t.streamsOf(s) {
		if stream.confidence.Unconfirmed() {
			return true
		}
	}
	return false
}

// doubtsName is doubts for one canonical name. The control plane's silence about it is
// an answer, too, and may be the only one: a delta server without any of the requested resources
// need not answer.
func (t *core) doubtsName(s *Subscription, name string) bool {
	if t.isAssumed(name) {
		return true
	}
	if w := t.demand.Get(name); w != nil && w.Stream() != Nobody && !s.key.wildcard && t.streams[w.Stream()].names.IsSilent(name) {
		return false
	}
	return t.doubts(s)
}

// noteAbsent records names that a stream's control plane did not answer for, and wakes
// clients that may claim to have them. That is needed even if the names were absent before, because
// nothing else would wake them.
func (t *core) noteAbsent(by int, names []string) {
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

// seesNow reports whether s sees a resource in e.
func (s *Subscription) seesNow(e *table.Entry) bool {
	there, _ := s.sees(e)
	return there
}

// covers reports whether s asks for the glob that covers the canonical name.
func (t *core) covers(s *Subscription, name string) bool {
	if s.globs == 0 {
		return false
	}
	_, ok := s.names[resource.GlobOf(name)]
	return ok
}

// opens is covers while that glob waits for an answer, and s has no wildcard of the
// same stream that was answered.
func (t *core) opens(s *Subscription, name string) bool {
	if !t.covers(s, name) {
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
	return gen <= t.core.store.Gen()
}
