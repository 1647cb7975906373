package cache

import (
	"cmp"
	"math"
	"slices"
	"time"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// note is one thing to be sent without a change: one of the two.
type note struct {
	number uint64
	entry  *table.Entry
	err    *resourceError
}

// pickNotes adds the notes since the position. No name may have both a resource and an error in one
// response (K8), so if a note conflicts with what was picked, it and all later ones are left to the
// next answer.
func (p *picker) pickNotes() {
	since, to := p.query.Since.Noted, &p.out.To
	to.Noted = max(since, p.sub.noted)
	if p.query.Timed {
		to.Noted = max(to.Noted, p.sub.heartbeat)
	}
	if since == to.Noted {
		p.pickExtra()
		return
	}
	have := p.shown()
	notes := p.notes(have)
	cut := min(p.cut(notes, have), p.fits(notes))
	for _, n := range notes {
		switch {
		case n.number >= cut:
			to.Noted = max(since, cut-1)
			return
		case n.entry != nil && n.entry.TTLState.ChangedAt > since:
			p.out.Resources = append(p.out.Resources, n.entry.Res)
		case n.entry != nil:
			p.out.Heartbeats = append(p.out.Heartbeats, n.entry.Res)
		case n.err.removal:
			p.out.RemovedNames = append(p.out.RemovedNames, n.err.about.Raw)
		default:
			p.addError(n.err)
		}
	}
	p.pickExtra()
}

func (p *picker) addError(r *resourceError) {
	p.out.Errors = append(p.out.Errors, r.about.Raw)
	p.out.Failed = append(p.out.Failed, r.key)
	if r.local {
		p.out.Locals++
	}
}

// notes returns what the client must be sent besides the resources that it gets, oldest first.
func (p *picker) notes(have map[string]struct{}) (notes []note) {
	since := p.query.Since.Noted
	if p.query.Timed && p.sub.heartbeat > since {
		p.eachHeartbeat(since, func(e *table.Entry) {
			if _, sent := have[e.Name]; !sent && p.heartbeatSuffices(e) {
				notes = append(notes, note{number: e.TTLState.Noted, entry: e})
			}
		})
	}
	if p.sub.noted > since {
		p.eachError(since, func(r *resourceError) {
			if p.concerns(r) {
				notes = append(notes, note{number: r.note, err: r})
			}
		})
	}
	slices.SortFunc(notes, func(a, b note) int { return cmp.Compare(a.number, b.number) })
	return notes
}

// eachHeartbeat calls f for the entries whose TTLs were renewed since a note: the newest of all, or
// those of the subscription if these are fewer.
func (p *picker) eachHeartbeat(since uint64, f func(*table.Entry)) {
	t := p.table
	if !p.sub.key.wildcard {
		steps, most := 0, p.reach()+8
		for e := t.store.NewestHeartbeat(); e != nil && e.TTLState.Noted > since; e = e.OlderHeartbeat() {
			if steps++; steps > most {
				t.eachNamedLocked(p.sub, func(e *table.Entry) {
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
func (p *picker) eachError(since uint64, f func(*resourceError)) {
	t, steps := p.table, 0
	if !p.sub.key.wildcard && p.sub.globs == 0 {
		for r := t.errorsByNote.newest; r != nil && r.note > since; r = r.place.next {
			if steps++; steps > len(p.sub.names)+8 {
				for name := range p.sub.names {
					for _, r := range t.resourceErrors[name] {
						if r.note > since {
							f(r)
						}
					}
				}
				return
			}
		}
	}
	for r := t.errorsByNote.newest; r != nil && r.note > since; r = r.place.next {
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
func (p *picker) concerns(r *resourceError) bool {
	switch {
	case r.local && p.query.Peer, !p.hears(r):
		return false
	case !p.query.Whole:
		return true
	case r.removal, r.local: // it would read as removal of what is missing (K15)
		return false
	}
	return !p.has(r.key) // otherwise it is in the set (K8)
}

// hears reports whether the client asks for the name of r on its stream.
func (p *picker) hears(r *resourceError) bool {
	t := p.table
	asked := func(name string) bool {
		_, named := p.sub.names[name]
		return named && t.demand.Get(name).Stream() == r.stream
	}
	if asked(r.key) {
		return true
	}
	return !r.local && (p.sub.key.wildcard && t.demand.Wildcard().Stream() == r.stream || p.sub.globs > 0 && asked(resource.GlobOf(r.key)))
}

// has reports whether the client sees a resource with that name.
func (p *picker) has(name string) (yes bool) {
	p.table.store.EachOf(name, func(e *table.Entry) {
		there, _ := p.sub.seesLocked(e)
		yes = yes || there && e.GoesBy(name)
	})
	return yes
}

// cut finds the first note that must not be in this answer. It adds the heartbeats before that to
// have, the names of the resources in it.
func (p *picker) cut(notes []note, have map[string]struct{}) uint64 {
	for _, n := range notes {
		if n.entry != nil {
			have[n.entry.Name] = struct{}{}
			continue
		}
		if _, both := have[n.err.key]; both && !p.query.Whole {
			return n.number // for a complete set see updateBits
		}
		if p.query.KeepRemoved {
			return n.number // its resource may still be shown
		}
	}
	return math.MaxUint64
}

// fits finds the first note for which there is no room.
func (p *picker) fits(notes []note) uint64 {
	if p.query.Limit <= 0 || p.query.Whole {
		return math.MaxUint64
	}
	size := p.size()
	for _, n := range notes {
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
	return len(n.err.about.Raw) + removedSize
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
	x := &p.table.extra
	if x.note <= p.query.Since.Noted || p.query.Whole || p.out.Empty() && !(x.alone && x.note <= p.sub.noted) {
		return
	}
	p.out.Extra = x.fields
	p.out.To.Noted = max(p.out.To.Noted, x.note)
}

// pickForcedErrors adds the errors about the forced names (B18, B35), as far as the notes since the
// position do not.
func (p *picker) pickForcedErrors() {
	if len(p.table.resourceErrors) == 0 {
		return
	}
	var later []string
	for _, name := range p.query.Force.list() {
		for _, r := range p.table.resourceErrors[name] {
			if r.removal || r.note > p.query.Since.Noted || !p.concerns(r) || p.out.Withheld.has(name) {
				continue
			}
			switch {
			case p.has(name):
				// The resource is sent now, and the error after that.
				p.out.To.Noted = min(p.out.To.Noted, r.note-1)
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
	if !p.query.Timed || p.table.store.Expiring() == 0 {
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
