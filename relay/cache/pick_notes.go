package cache

import (
	"cmp"
	"math"
	"slices"
	"time"

	"xdsrelay/relay/cache/notes"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// note is one thing to be sent without a change: one of the two.
type note struct {
	number uint64
	entry  *table.Entry
	err    *notes.Problem
}

// pickNotes adds the notes since the position. No name may have both a resource and an error in one
// response (K8), so if a note conflicts with what was picked, it and all later ones are left to the
// next answer.
func (p *picker) pickNotes() {
	since, to := p.query.Since.Noted, &p.out.To
	to.Noted = max(since, p.sub.noted)
	if p.query.Reader.takesTTLs() {
		to.Noted = max(to.Noted, p.sub.heartbeat)
	}
	if since == to.Noted {
		p.pickExtra()
		return
	}
	have := p.shown()
	all := p.notes(have)
	cut := min(p.cut(all, have), p.fits(all))
	for _, n := range all {
		switch {
		case n.number >= cut:
			to.Noted = max(since, cut-1)
			return
		case n.entry != nil && n.entry.TTLState.ChangedAt > since:
			p.out.Resources = append(p.out.Resources, n.entry.Res)
		case n.entry != nil:
			p.out.Heartbeats = append(p.out.Heartbeats, n.entry.Res)
		case n.err.Kind == notes.Removal:
			p.out.RemovedNames = append(p.out.RemovedNames, n.err.About.Raw)
		default:
			p.addError(n.err)
		}
	}
	p.pickExtra()
}

func (p *picker) addError(r *notes.Problem) {
	p.out.Errors = append(p.out.Errors, r.About.Raw)
	p.out.Failed = append(p.out.Failed, r.Name)
	if r.Kind == notes.OwnError {
		p.out.Locals++
	}
}

// notes returns what the client must be sent besides the resources that it gets, oldest first.
func (p *picker) notes(have map[string]struct{}) (all []note) {
	since := p.query.Since.Noted
	if p.query.Reader.takesTTLs() && p.sub.heartbeat > since {
		p.eachHeartbeat(since, func(e *table.Entry) {
			if _, sent := have[e.Name]; !sent && p.heartbeatSuffices(e) {
				all = append(all, note{number: e.TTLState.Noted, entry: e})
			}
		})
	}
	if p.sub.noted > since {
		p.eachError(since, func(r *notes.Problem) {
			if p.concerns(r) {
				all = append(all, note{number: r.Note(), err: r})
			}
		})
	}
	slices.SortFunc(all, func(a, b note) int { return cmp.Compare(a.number, b.number) })
	return all
}

// eachHeartbeat calls f for the entries whose TTLs were renewed since a note: the newest of all, or
// those of the subscription if these are fewer.
func (p *picker) eachHeartbeat(since uint64, f func(*table.Entry)) {
	t := p.table
	if !p.sub.key.wildcard {
		steps, most := 0, p.reach()+8
		for e := t.store.NewestHeartbeat(); e != nil && e.TTLState.Noted > since; e = e.OlderHeartbeat() {
			if steps++; steps > most {
				t.eachNamed(p.sub, func(e *table.Entry) {
					if e.TTLState != nil && e.TTLState.Noted > since {
						f(e)
					}
				})
				return
			}
		}
	}
	for e := t.store.NewestHeartbeat(); e != nil && e.TTLState.Noted > since; e = e.OlderHeartbeat() {
		f(e)
	}
}

// eachError is eachHeartbeat for resource errors.
func (p *picker) eachError(since uint64, f func(*notes.Problem)) {
	t, steps := p.table, 0
	if !p.sub.key.wildcard && p.sub.globs == 0 {
		for r := t.notes.Newest(); r != nil && r.Note() > since; r = r.Older() {
			if steps++; steps > len(p.sub.names)+8 {
				for name := range p.sub.names {
					for _, r := range t.notes.Of(name) {
						if r.Note() > since {
							f(r)
						}
					}
				}
				return
			}
		}
	}
	for r := t.notes.Newest(); r != nil && r.Note() > since; r = r.Older() {
		f(r)
	}
}

// heartbeatSuffices reports whether the client has the present e, so that a heartbeat is enough.
// Otherwise e is sent as a change.
func (p *picker) heartbeatSuffices(e *table.Entry) bool {
	there, gen := p.look(e)
	return there && gen <= p.query.Since.Gen && !p.query.Except.has(e.Name)
}

// concerns reports whether r must be sent to the client.
func (p *picker) concerns(r *notes.Problem) bool {
	switch {
	case r.Kind == notes.OwnError && p.query.Reader == OtherNode, !p.hears(r):
		return false
	case !p.query.Scope.isWhole():
		return true
	case r.Kind != notes.Error: // it would read as removal of what is missing (K15)
		return false
	}
	return !p.has(r.Name) // otherwise it is in the set (K8)
}

// hears reports whether the client asks for the name of r on its stream.
func (p *picker) hears(r *notes.Problem) bool {
	t := p.table
	asked := func(name string) bool {
		_, named := p.sub.names[name]
		return named && t.demand.Get(name).Stream() == r.Stream
	}
	if asked(r.Name) {
		return true
	}
	return r.Kind != notes.OwnError && (p.sub.key.wildcard && t.demand.Wildcard().Stream() == r.Stream || p.sub.globs > 0 && asked(resource.GlobOf(r.Name)))
}

// has reports whether the client sees a resource with that name.
func (p *picker) has(name string) (yes bool) {
	p.eachOf(name, func(e *table.Entry) {
		there, _ := p.sub.sees(e)
		yes = yes || there && e.GoesBy(name)
	})
	return yes
}

// cut finds the first note that must not be in this answer. It adds the heartbeats before that to
// have, the names of the resources in it.
func (p *picker) cut(all []note, have map[string]struct{}) uint64 {
	for _, n := range all {
		if n.entry != nil {
			have[n.entry.Name] = struct{}{}
			continue
		}
		if _, both := have[n.err.Name]; both && !p.query.Scope.isWhole() {
			return n.number // for a full state see concerns
		}
		if p.query.KeepRemoved {
			return n.number // its resource may still be shown
		}
	}
	return math.MaxUint64
}

// fits finds the first note for which there is no room.
func (p *picker) fits(all []note) uint64 {
	if p.query.Limit <= 0 || p.query.Scope.isWhole() {
		return math.MaxUint64
	}
	size := p.size()
	for _, n := range all {
		if used := size; used > 0 && used+n.size() > p.query.Limit {
			return n.number
		}
		size += n.size()
	}
	return math.MaxUint64
}

// size is the maximum size of n in a response, in bytes.
func (n note) size() int {
	if n.entry != nil {
		return n.entry.Res.WireSize()
	}
	return len(n.err.About.Raw) + removedSize
}

// shown returns the names of the resources in the answer.
func (p *picker) shown() map[string]struct{} {
	have := make(map[string]struct{}, len(p.out.Resources))
	for _, r := range p.out.Resources {
		have[r.Key] = struct{}{}
	}
	return have
}

// pickExtra adds unknown fields of responses, for clients that get an answer anyway, unless the
// fields arrived alone.
func (p *picker) pickExtra() {
	x := p.table.notes.Extra()
	if x.Note <= p.query.Since.Noted || p.query.Scope.isWhole() || p.out.Empty() && !(x.Alone && x.Note <= p.sub.noted) {
		return
	}
	p.out.Extra = x.Fields
	p.out.To.Noted = max(p.out.To.Noted, x.Note)
}

// pickForcedErrors adds the errors about the forced names (B18, B35), as far as the notes since the
// position do not.
func (p *picker) pickForcedErrors() {
	if p.table.notes.Len() == 0 {
		return
	}
	var later []string
	for _, name := range p.query.Force.list() {
		for _, r := range p.table.notes.Of(name) {
			if !r.IsError() || r.Note() > p.query.Since.Noted || !p.concerns(r) || p.out.Withheld.has(name) {
				continue
			}
			switch {
			case p.has(name):
				// The resource is sent now, and the error after that.
				p.out.To.Noted = min(p.out.To.Noted, r.Note()-1)
			case p.query.KeepRemoved:
				later = append(later, name)
			default:
				p.addError(r)
			}
		}
	}
	p.out.Withheld = p.out.Withheld.With(NewNames(later))
}

// pickLifetimes computes the remaining TTLs of all that is sent.
func (p *picker) pickLifetimes() {
	if !p.query.Reader.takesTTLs() || p.table.store.Expiring() == 0 {
		return
	}
	at := p.query.At
	if at.IsZero() {
		at = time.Now()
	}
	p.out.Lifetimes = make(map[*resource.Resource]time.Duration)
	for _, rs := range [...][]*resource.Resource{p.out.Resources, p.out.Heartbeats} {
		for _, r := range rs {
			e := p.table.store.Get(r.Key)
			if e != nil && e.Res == r && e.TTLState != nil && !e.TTLState.Expires.IsZero() {
				p.out.Lifetimes[r] = max(e.TTLState.Expires.Sub(at), shortest)
			}
		}
	}
}

// shortest is the minimum TTL that is sent: zero would mean none.
const shortest = time.Millisecond
