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
		if a == nil {
			a = r.newAsked(typ)
		} else {
			r.flush(s, a)
		}
		missing := r.feed.Missing(typ, d.Subscribe)
		var sent bool
		if r.cp.cfg.Delta {
			sent = r.askDelta(s, a, d, whole)
		} else {
			sent = r.askSotW(s, a, d, missing, whole)
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

func (r *runner) newAsked(typ *resource.Type) *asked {
	a := &asked{claims: r.feed.Claims(typ)}
	a.Type = typ
	if r.cp.cfg.Delta {
		a.Variant = conversation.Delta
	}
	return a
}

func (r *runner) askDelta(s *session, a *asked, d *cache.Demand, whole bool) bool {
	next := a.AskDelta(d, r.cp.cfg.Wildcard == WildcardLegacy, whole)
	switch next.Act {
	case conversation.Nothing:
		return false
	case conversation.OpenNewStream:
		r.renew(s)
		return false
	case conversation.DropAndSend:
		s.request(a, message{subscribe: next.Drop.Subscribe, unsubscribe: next.Drop.Unsubscribe})
		if len(next.Twice) > 0 {
			s.request(a, message{unsubscribe: next.Twice})
		}
	case conversation.Send:
	}
	m := message{subscribe: next.Subscribe, unsubscribe: next.Unsubscribe}
	if next.First {
		// The stream began without this type. The owner of a key understands the versions that it
		// is sent and reports removals itself, so nothing is stale there.
		if r.following == nil && r.feed.Stale(a.Type) {
			r.mark(a.Type)
		}
		m.initialVersions = r.initialVersions(s, a.Type)
		m.settled = r.following != nil && r.feed.Settled(a.Type)
	}
	if r.following != nil {
		r.feed.AskErrored(a.Type, &a.errored, m.subscribe)
	}
	if rest := s.request(a, m); len(rest) > 0 {
		r.content.Mark(a.Type, rest) // the server sends these again
	}
	return true
}

func (r *runner) askSotW(s *session, a *asked, d *cache.Demand, missing []string, whole bool) bool {
	// Other nodes may ask for more names than this node admits from its own clients.
	for sizeOf(d.Names) > NamesThatFit(s.serverStream.server.limit.most()) && r.shed(a.Type) {
		whole = true
		fewer, wanted := r.feed.TakeAll(a.Type, true)
		if !wanted {
			return false
		}
		*d = fewer
	}
	version := r.content.Version(s.serverStream.server.address, a.Type) // C1
	next := a.AskSotW(d, missing, r.cp.cfg.Wildcard == WildcardLegacy, whole)
	switch next.Act {
	case conversation.Nothing:
		return false
	case conversation.OpenNewStream:
		r.renew(s)
		return false
	case conversation.DropAndSend:
		s.request(a, message{names: next.Drop.Names, version: version, nonce: a.Nonce})
	case conversation.Send:
	}
	s.request(a, message{names: next.Names, version: version, nonce: a.Nonce})
	return true
}

// renew opens a new stream in place of s. On SotW the new stream sends no versions: a server that
// takes a version as proof that its client is current would never report what it removed in between
// (B32). On delta it sends the versions of the cached resources, so the server reports what it
// removed (C8).
func (r *runner) renew(s *session) {
	r.content.Forget()
	s.cancel(errRenewed)
}

// reopenReplaced opens a new stream in place of each one on which the content of other nodes has
// replaced what the control plane sent, and after the process slept: a control plane that goes back to
// what it sent would stay silent, since it counts as sent, and its messages on the way may be old.
func (r *runner) reopenReplaced() {
	if r.following != nil {
		return // the owner of the key may have older content than other nodes
	}
	for s := range r.sessions() {
		for _, a := range s.types {
			if s.up() && a.claims != r.feed.Claims(a.Type) {
				r.renew(s)
				break
			}
		}
	}
}

// respond applies a response and sends the ACK or NACK (C3, K1).
func (r *runner) respond(s *session, rsp *resource.Response) {
	a := s.types[rsp.Type.URL]
	if a == nil {
		r.cp.metrics.response(rsp, outcomeUnrequested) // C10
		return
	}
	r.flush(s, a)
	s.serverStream.primaryStream().types.Answered(a.Type)
	now := time.Now()
	u := r.update(a, rsp, now)
	u.Received = now
	if r.following != nil {
		r.applyOwnerMark(&u, a, rsp)
		u.Parent = rsp.Mark.Trace
	}
	edits := r.feed.PendingEdits(a.Type)
	changes, ok := r.apply(s, a, u)
	if !ok {
		return
	}
	carried := r.feed.Carried(&u, edits)
	if u.Full || len(u.Resources)+len(u.Removed) > 0 {
		a.carried = carried.Change
	}
	r.noteMentioned(s, a, rsp, now)
	owed := reply{nonce: rsp.Nonce, version: rsp.Version, omit: a.Omit(rsp)}
	if len(rsp.Invalid) == 0 && carried.Wait > 0 && r.following == nil {
		r.deferReply(a, rsp, owed, now, carried.Wait)
		return
	}
	if len(rsp.Invalid) == 0 {
		r.content.Accepted(a.Type, rsp.Version)
		r.cp.metrics.response(rsp, outcomeAck)
		delay := a.Accept(rsp, changes, now)
		if r.following != nil {
			delay = 0
		}
		s.reply(a, owed, now, delay)
		r.shareErrors(s, a)
		return
	}
	owed.version, owed.errorDetail = r.content.Version(s.serverStream.server.address, a.Type), errorDetailOf(rsp) // C4
	r.cp.metrics.response(rsp, outcomeNack)
	s.serverStream.server.journal.nacked(a.Type.URL, owed.errorDetail.GetMessage())
	s.reply(a, owed, now, a.Reject(rsp))
}

// apply passes an update to the cache. It opens a new stream if the update answers initial versions
// that the cache no longer has (C8), or may be from before the process slept.
func (r *runner) apply(s *session, a *asked, u cache.Update) (changes int, ok bool) {
	if changes, ok = r.feed.ApplyAnswer(a.claims, u); !ok {
		r.renew(s)
	}
	return changes, ok
}

// update converts a response to a cache update. The valid part of a response that will be NACKed
// counts as well (C5).
func (r *runner) update(a *asked, rsp *resource.Response, now time.Time) cache.Update {
	u := cache.Update{Type: a.Type, Resources: rsp.Resources, Removed: rsp.Removed, Source: rsp.ControlPlane,
		Errors: rsp.Errors, RemovedNames: rsp.RemovedNames, Extra: rsp.Extra,
	}
	keep, named := namesOf(rsp.Invalid)
	u.Rejected = slices.DeleteFunc(slices.Clone(rsp.Invalid), func(inv resource.Invalid) bool { return unnamed(inv.Name) })
	if !r.cp.cfg.Delta {
		u.Version, u.Keep = rsp.Version, keep
		u.Full = a.Type.FullState && named // D3, D4
		return u
	}
	u.Differences = true
	if len(rsp.Invalid) == 0 {
		u.System.Version = rsp.Version
	}
	if rsp.Size >= largeFrame {
		a.completeAt = now.Add(partQuiet)
		a.LargeFrame()
	}
	if a.Frames == conversation.Partial {
		u.Kind = cache.Partial
	}
	return u
}

// noteMentioned records the names that the server of s has mentioned.
func (r *runner) noteMentioned(s *session, a *asked, rsp *resource.Response, now time.Time) {
	for _, inv := range rsp.Invalid {
		if !unnamed(inv.Name) && s.absences.awaits(a.Type.URL) {
			if a.rejected == nil {
				a.rejected = make(map[string]struct{})
			}
			a.rejected[resource.Canonical(inv.Name)] = struct{}{}
		}
	}
	if r.content.Marked(a.Type) == 0 {
		return
	}
	for _, res := range rsp.Resources {
		r.content.Mentioned(a.Type, res.Key)
	}
	for _, n := range rsp.Removed {
		r.content.Mentioned(a.Type, n)
	}
	for _, e := range rsp.Errors {
		r.content.Mentioned(a.Type, e.Name)
	}
	for _, inv := range rsp.Invalid {
		r.content.Mentioned(a.Type, inv.Name)
	}
	if a.HasWildcard() {
		a.sweepAt = now.Add(sweepQuiet)
	}
}
