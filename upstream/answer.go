package upstream

import (
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/upstream/conversation"
)

const (
	// A delta frame of at least largeFrame bytes may be one of several that make up one answer. The
	// answer counts as complete when no other frame has arrived for partQuiet. Otherwise a part
	// would make the rest look absent, and clients would see an empty state (K13).
	largeFrame = 1 << 20
	partQuiet  = 250 * time.Millisecond

	// minHeartbeat is the shortest interval between heartbeats of a well-behaved control plane.
	minHeartbeat = 100 * time.Millisecond
)

// ask sends demands to the control plane. With whole, demands are everything that is wanted;
// without it, they are changes.
func (r *runner) ask(s *session, demands []cache.Demand, whole bool) {
	now := time.Now()
	for i := range demands {
		d := &demands[i]
		typ := d.Table.Type
		if !r.mayRequest(s, typ, now) {
			continue
		}
		a := s.types[typ.URL]
		first := a == nil
		if first {
			a = &asked{typ: typ, shadow: conversation.Conversation{Type: typ, Variant: variantOf(r.cp.cfg.Delta)}}
		} else {
			s.flush(a)
		}
		missing := r.feed.Missing(typ, d.Subscribe)
		var sent bool
		if r.cp.cfg.Delta {
			sent = r.askDelta(s, a, d, first, whole)
		} else {
			sent = r.askSotW(s, a, d, missing, first, whole)
		}
		if sent {
			s.types[typ.URL], a.since = a, now
			s.absences.drop(typ, d.Unsubscribe)
			s.absences.drop(typ, d.Again)
			if r.following == nil { // the owner of a key itself reports which names do not exist
				s.absences.await(now, typ, missing) // C12
			}
		}
	}
}

func (r *runner) askDelta(s *session, a *asked, d *cache.Demand, first, whole bool) bool {
	if shadowing {
		a.trace, a.renewed = nil, false
		next := a.shadow.AskDelta(d, r.cp.cfg.Wildcard == WildcardLegacy, whole)
		if (next.First) != (first && next.Act == conversation.Send) {
			panic("first")
		}
		defer func() { a.compareAsk(next, true) }()
	}
	if a.joinIsAmbiguous(d) {
		a.renewed = true
		r.renew(s)
		return false
	}
	var m message
	var send bool
	if m.subscribe, m.unsubscribe, send = a.change(d, r.cp.cfg.Wildcard, first, whole); !send {
		return false
	}
	if first {
		// The stream began without this type. The owner of a key understands the versions that it
		// is sent and reports removals itself, so nothing is stale there.
		if r.following == nil && r.feed.Stale(a.typ) {
			r.markStale(a.typ)
		}
		a.claims = r.feed.Claims(a.typ)
		m.initialVersions = r.initialVersions(s, a.typ)
		m.settled = r.following != nil && r.feed.Settled(a.typ)
	} else if len(d.Again) > 0 {
		// C9: go-control-plane resends a resource only to a client that has unsubscribed from it.
		// The request is sent twice where an update may have crossed the first one.
		drop := message{unsubscribe: d.Again}
		if !a.wild { // otherwise m keeps the other unsubscriptions; its wildcard restores their resources
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
		r.noteUnsentVersions(a.typ, rest)
	}
	return true
}

func (r *runner) askSotW(s *session, a *asked, d *cache.Demand, missing []string, first, whole bool) bool {
	// Other nodes may ask for more names than this node admits from its own clients.
	for sizeOf(d.Names) > NamesThatFit(s.serverStream.server.limit.most()) && r.shed(a.typ) {
		whole = true
		fewer, wanted := r.feed.TakeAll(a.typ, true)
		if !wanted {
			return false
		}
		*d = fewer
	}
	if shadowing {
		a.trace, a.renewed = nil, false
		next := a.shadow.AskSotW(d, missing, r.cp.cfg.Wildcard == WildcardLegacy, whole)
		defer func() { a.compareAsk(next, false) }()
	}
	version := r.accepted[a.typ.URL]
	if r.source != s.serverStream.server.index {
		version = "" // C1: the version was accepted from another server
	}
	again := resubscribed(d, missing)
	if first || whole {
		again = nil // nothing was subscribed on this stream yet, so there is nothing to unsubscribe
	}
	rest := *d
	rest.Names = without(d.Names, again)
	switch {
	case a.wild && !a.named && !d.Wildcard && len(rest.Names) == 0:
		// B20, C7: where no request of the stream had a name, the empty list still means the
		// wildcard.
		a.renewed = true
		r.renew(s)
		return false
	case !first && d.Wildcard && (!a.wild || d.WildcardChanged && !whole):
		// A server that has nothing new for the wildcard may stay silent. Then the relay cannot see
		// whether the wildcard has been answered (K13, B24).
		a.renewed = true
		r.renew(s)
		return false
	}
	gone := d.Unsubscribe
	if whole {
		gone = without(plain(a.names), d.Names)
	}
	a.noteUnsubscribed(gone, a.wild && !d.Wildcard)
	if len(again) > 0 {
		// C9: the server believes that the relay still has these resources.
		a.noteUnsubscribed(again, a.wild && !d.Wildcard)
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

// renew opens a new stream in place of s. On SotW the new stream sends no versions: a server that
// takes a version as proof that its client is current would never report what it removed in between
// (B32). On delta it sends the versions of the cached resources, so the server reports what it
// removed (C8).
func (r *runner) renew(s *session) {
	clear(r.accepted)
	s.cancel(errRenewed)
}

// respond applies a response and sends the ACK or NACK (C3, K1).
func (r *runner) respond(s *session, rsp *resource.Response) {
	a := s.types[rsp.Type.URL]
	if a == nil {
		r.cp.metrics.response(rsp, outcomeUnrequested) // C10
		return
	}
	s.flush(a)
	s.serverStream.primaryStream().types.Answered(a.typ)
	now := time.Now()
	u := r.update(a, rsp, now)
	u.Received = now
	if r.following != nil {
		r.applyOwnerMark(&u, a, rsp)
		u.Parent = rsp.Mark.Trace
	}
	changes, ok := r.apply(s, a, u)
	if !ok {
		return
	}
	r.noteMentioned(s, a, rsp, now)
	a.nonce = rsp.Nonce // C2
	again := a.omitFromNextRequest(rsp)
	if shadowing {
		if got := a.shadow.Omit(rsp); !slices.Equal(got, again) {
			panic("the shadow omits other names")
		}
	}
	if len(rsp.Invalid) == 0 {
		a.nacks = 0
		r.accepted[a.typ.URL] = rsp.Version
		r.cp.metrics.response(rsp, outcomeAck)
		delay := time.Duration(0)
		if r.following == nil {
			delay = a.repeated(rsp, changes, now)
		}
		if shadowing {
			got := a.shadow.Accept(rsp, changes, now)
			if r.following != nil {
				got = 0
			}
			a.delayed = &reply{}
			a.compareDelay(got, delay)
		}
		s.reply(a, &reply{version: rsp.Version, nonce: rsp.Nonce, omit: again}, now, delay)
		r.shareErrors(s, a)
		return
	}
	nack := &reply{nonce: rsp.Nonce, version: r.accepted[a.typ.URL], errorDetail: errorDetailOf(rsp), omit: again} // C4
	r.cp.metrics.response(rsp, outcomeNack)
	s.serverStream.server.journal.nacked(a.typ.URL, nack.errorDetail.GetMessage())
	delay := answerDelay(a.nacks)
	a.nacks++
	if shadowing {
		a.delayed = &reply{}
		a.compareDelay(a.shadow.Reject(rsp), delay)
	}
	s.reply(a, nack, now, delay)
}

// apply passes an update to the cache. On delta it opens a new stream if the update answers initial
// versions that the cache no longer has (C8).
func (r *runner) apply(s *session, a *asked, u cache.Update) (changes int, ok bool) {
	if !r.cp.cfg.Delta {
		return r.feed.Apply(u), true
	}
	if changes, ok = r.feed.ApplyAnswer(a.claims, u); !ok {
		r.renew(s)
	}
	return changes, ok
}

// repeated returns how long to delay the ACK of a response that changed so many resources. Some
// servers answer some ACKs with the same response again.
func (a *asked) repeated(rsp *resource.Response, changes int, now time.Time) time.Duration {
	since := now.Sub(a.lastAt)
	again := changes == 0 && rsp.Version == a.version && since < 2*maxDelay
	if again && since >= minHeartbeat {
		// A TTL is meant to be refreshed periodically (F4).
		again = !slices.ContainsFunc(rsp.Resources, func(r *resource.Resource) bool { return r.TTL > 0 })
	}
	a.version, a.lastAt = rsp.Version, now
	if !again {
		a.repeats = 0
		return 0
	}
	a.repeats++
	return answerDelay(max(0, a.repeats-3)) // names that were subscribed again may cause a few repeats
}

// update converts a response to a cache update. The valid part of a response that will be NACKed
// counts as well (C5).
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
		a.completeAt = now.Add(partQuiet)
		a.shadow.LargeFrame()
	}
	u.Partial = !a.completeAt.IsZero()
	return u
}

// noteMentioned records the names that the server of s has mentioned.
func (r *runner) noteMentioned(s *session, a *asked, rsp *resource.Response, now time.Time) {
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
