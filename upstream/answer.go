package upstream

import (
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

const (
	// largeFrame is the size in bytes from which on a delta frame is taken for
	// one of several that make up one answer, and partQuiet how long no other
	// must have come until the answer is complete. To conclude from a part
	// that the rest does not exist would show clients an empty state (K13).
	largeFrame = 1 << 20
	partQuiet  = 250 * time.Millisecond

	// leastBeat is the shortest time between the heartbeats of a sane origin.
	leastBeat = 100 * time.Millisecond
)

// ask puts demands to the origin. whole says that they are everything that is
// wanted, rather than changes.
func (r *runner) ask(s *session, demands []cache.Demand, whole bool) {
	now := time.Now()
	for i := range demands {
		d := &demands[i]
		typ := d.Table.Type
		if !r.takes(s, typ, now) {
			continue
		}
		a := s.types[typ.URL]
		first := a == nil
		if first {
			a = &asked{typ: typ}
		} else {
			s.flush(a)
		}
		missing := r.feed.Missing(typ, d.Subscribe)
		var said bool
		if r.cp.cfg.Delta {
			said = r.askDelta(s, a, d, first, whole)
		} else {
			said = r.askSotW(s, a, d, missing, first, whole)
		}
		if said {
			s.types[typ.URL], a.since = a, now
			s.absences.drop(typ, d.Unsubscribe)
			s.absences.drop(typ, d.Again)
			if r.following == nil { // the owner of a key says itself what does not exist
				s.absences.await(now, typ, missing) // C12
			}
		}
	}
}

func (r *runner) askDelta(s *session, a *asked, d *cache.Demand, first, whole bool) bool {
	if a.joinIsAmbiguous(d) {
		r.renew(s)
		return false
	}
	var m message
	var say bool
	if m.subscribe, m.unsubscribe, say = a.change(d, r.cp.cfg.Wildcard, first, whole); !say {
		return false
	}
	if first {
		// It was not there yet when the stream began. Who owns the key is told
		// versions that mean something, and says itself what is gone.
		if r.following == nil && r.feed.Stale(a.typ) {
			r.markStale(a.typ)
		}
		a.claims = r.feed.Claims(a.typ)
		m.held = r.held(s, a.typ)
		m.settled = r.following != nil && r.feed.Settled(a.typ)
	} else if len(d.Again) > 0 {
		// C9: go-control-plane repeats a name only to who has dropped it before,
		// twice if a change may have crossed the first time.
		drop := message{unsubscribe: d.Again}
		if !a.wild { // else the rest goes with the wildcard, which brings it back
			drop.unsubscribe, m.unsubscribe = slices.Concat(m.unsubscribe, d.Again), nil
			if len(m.subscribe) > 0 && m.subscribe[0] == wildcard {
				drop.subscribe, m.subscribe = m.subscribe[:1], m.subscribe[1:] // B23
			}
		}
		s.request(a, drop)
		if len(d.Twice) > 0 {
			s.request(a, message{unsubscribe: d.Twice})
		}
	}
	if r.following != nil {
		r.feed.AskErrored(a.typ, &a.errored, m.subscribe)
	}
	if rest := s.request(a, m); len(rest) > 0 {
		r.noteUnclaimed(a.typ, rest)
	}
	return true
}

func (r *runner) askSotW(s *session, a *asked, d *cache.Demand, missing []string, first, whole bool) bool {
	// What other nodes ask for may be more than this one admits of its own clients.
	for sizeOf(d.Names) > NamesThatFit(s.link.server.limit.most()) && r.shed(a.typ) {
		whole = true
		fewer, wanted := r.feed.TakeAll(a.typ, true)
		if !wanted {
			return false
		}
		*d = fewer
	}
	version := r.accepted[a.typ.URL]
	if r.source != s.link.server.index {
		version = "" // C1: it was accepted from another server
	}
	again := returned(d, missing)
	if first || whole {
		again = nil // there was nothing yet that it could go from
	}
	rest := *d
	rest.Names = without(d.Names, again)
	switch {
	case a.wild && !a.named && !d.Wildcard && len(rest.Names) == 0:
		// B20, C7: where nothing was ever named, the empty list still means
		// everything.
		r.renew(s)
		return false
	case !first && d.Wildcard && (!a.wild || d.WildcardChanged && !whole):
		// A server to which that brings nothing new may stay silent, and then
		// nobody knows whether it has answered (K13, B24).
		r.renew(s)
		return false
	}
	gone := d.Unsubscribe
	if whole {
		gone = without(plain(a.names), d.Names)
	}
	a.leave(gone, a.wild && !d.Wildcard)
	if len(again) > 0 {
		// C9: the origin believes that we hold them.
		a.leave(again, a.wild && !d.Wildcard)
		if a.restate(&rest, r.cp.cfg.Wildcard, first) {
			s.request(a, message{version: version, nonce: a.nonce})
		}
	}
	if !a.restate(d, r.cp.cfg.Wildcard, first) {
		return false
	}
	s.request(a, message{version: version, nonce: a.nonce})
	return true
}

// renew opens a new stream in place of s, on the relay's own initiative. On SotW it begins
// without versions: a server that takes a version for proof that its client is up to date
// would never report what is removed in between (B32). On delta it begins with the versions
// of what is cached, so the server reports what it removed (C8).
func (r *runner) renew(s *session) {
	clear(r.accepted)
	s.cancel(errRenewed)
}

// respond applies a response and answers it (C3, K1).
func (r *runner) respond(s *session, rsp *resource.Response) {
	a := s.types[rsp.Type.URL]
	if a == nil {
		r.cp.metrics.response(rsp, outcomeUnrequested) // C10
		return
	}
	s.flush(a)
	s.link.base().learn(a.typ)
	now := time.Now()
	u := r.update(a, rsp, now)
	u.Received = now
	if r.following != nil {
		r.mirror(&u, a, rsp)
		u.Parent = rsp.Mark.Trace
	}
	changes, ok := r.apply(s, a, u)
	if !ok {
		return
	}
	r.noteNews(s, a, rsp, now)
	a.nonce = rsp.Nonce // C2
	again := a.doubted(rsp)
	if len(rsp.Invalid) == 0 {
		a.refusals = 0
		r.accepted[a.typ.URL] = rsp.Version
		r.cp.metrics.response(rsp, outcomeAck)
		delay := time.Duration(0)
		if r.following == nil {
			delay = a.repeated(rsp, changes, now)
		}
		s.reply(a, &reply{version: rsp.Version, nonce: rsp.Nonce, again: again}, now, delay)
		r.shareErrors(s, a)
		return
	}
	late := &reply{nonce: rsp.Nonce, version: r.accepted[a.typ.URL], refusal: refusalOf(rsp), again: again} // C4
	r.cp.metrics.response(rsp, outcomeNack)
	s.link.server.journal.refused(a.typ.URL, late.refusal.GetMessage())
	delay := answerDelay(a.refusals)
	a.refusals++
	s.reply(a, late, now, delay)
}

// apply gives the cache what an answer means, and opens a new stream where the answer is one
// to claims that are not what the cache holds any more (C8).
func (r *runner) apply(s *session, a *asked, u cache.Update) (changes int, ok bool) {
	if !r.cp.cfg.Delta {
		return r.feed.Apply(u), true
	}
	if changes, ok = r.feed.ApplyAnswer(a.claims, u); !ok {
		r.renew(s)
	}
	return changes, ok
}

// repeated returns how long the ACK of a response waits that brought so many
// changes. Some servers answer some ACKs with the same again.
func (a *asked) repeated(rsp *resource.Response, changes int, now time.Time) time.Duration {
	since := now.Sub(a.lastAt)
	again := changes == 0 && rsp.Version == a.version && since < 2*maxDelay
	if again && since >= leastBeat {
		// A TTL is meant to be said again and again (F4).
		again = !slices.ContainsFunc(rsp.Resources, func(r *resource.Resource) bool { return r.TTL > 0 })
	}
	a.version, a.lastAt = rsp.Version, now
	if !again {
		a.repeats = 0
		return 0
	}
	a.repeats++
	return answerDelay(max(0, a.repeats-3)) // a few may be due to names asked for again
}

// update is what a response means to the cache. What is valid in a response
// that will be NACKed counts all the same (C5).
func (r *runner) update(a *asked, rsp *resource.Response, now time.Time) cache.Update {
	u := cache.Update{Type: a.typ, Resources: rsp.Resources, Removed: rsp.Removed, Source: rsp.ControlPlane,
		Errors: rsp.Errors, RemovedNames: rsp.RemovedNames, Extra: rsp.Extra,
	}
	keep, named := namesOf(rsp.Invalid)
	u.Rejected = slices.DeleteFunc(slices.Clone(rsp.Invalid), func(inv resource.Invalid) bool { return unnamed(inv.Name) })
	if !r.cp.cfg.Delta {
		u.Version, u.Keep = rsp.Version, keep
		u.Full = a.typ.FullState && named // D3, D4
		return u
	}
	u.Differences = true
	if len(rsp.Invalid) == 0 {
		u.System.Version = rsp.Version
	}
	if rsp.Size >= largeFrame {
		a.settledAt = now.Add(partQuiet)
	}
	u.Partial = !a.settledAt.IsZero()
	return u
}

// noteNews remembers which names the server of s has spoken of.
func (r *runner) noteNews(s *session, a *asked, rsp *resource.Response, now time.Time) {
	for _, inv := range rsp.Invalid {
		if !unnamed(inv.Name) && s.absences.awaits(a.typ.URL) {
			if a.rejected == nil {
				a.rejected = make(map[string]struct{})
			}
			a.rejected[resource.Canonical(inv.Name)] = struct{}{}
		}
	}
	stale := r.stale[a.typ.URL]
	if len(stale) == 0 {
		return
	}
	for _, res := range rsp.Resources {
		delete(stale, res.Key)
	}
	for _, n := range rsp.Removed {
		delete(stale, resource.Canonical(n))
	}
	for _, e := range rsp.Errors {
		delete(stale, resource.Canonical(e.Name))
	}
	for _, inv := range rsp.Invalid {
		delete(stale, resource.Canonical(inv.Name))
	}
	if a.wild {
		a.sweepAt = now.Add(sweepQuiet)
	}
}
