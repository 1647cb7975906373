package cache

import (
	"cmp"
	"math"
	"slices"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// An answer that would exceed its limit is sent in parts (B40). Every change has its own
// generation, so the oldest changes that fit end at an ordinary position, and the next part starts
// there: no state is needed for the rest, and clients at the same position share parts as they
// share whole answers. The changes of one update stay together if they fit (D13).

// removedSize is the maximum size of a removed name in a response besides the name itself.
const removedSize = 8

// exceeds reports whether what was picked is too much for one answer.
func (p *picker) exceeds() bool {
	if p.query.Limit <= 0 || p.query.Scope.isWhole() {
		return false
	}
	return p.size() > p.query.Limit && len(p.out.Resources)+len(p.out.Removed) > 1
}

// size is the maximum size in a response of what was picked, in bytes.
func (p *picker) size() (size int) {
	for _, r := range p.out.Resources {
		size += r.WireSize()
	}
	for _, n := range p.out.Removed {
		size += len(n) + removedSize
	}
	return size
}

// part is one part of an answer that is being made.
type part struct {
	*picker
	room int                 // in bytes
	full bool                // something did not fit
	have map[string]struct{} // names that the part contains (B29)
}

// pickPart replaces what was picked by its first part: the forced names, because clients wait for
// them (E7), then those to refresh, then the oldest changes.
func (p *picker) pickPart() {
	p.out.Resources, p.out.Removed, p.loose = nil, nil, unordered{}
	part := part{picker: p, room: p.query.Limit, have: make(map[string]struct{})}
	part.pickForced()
	part.pickRefreshed()
	upTo := uint64(0)
	if !part.full && !p.query.Scope.IsOnDemand() {
		upTo = part.pickOldest()
	}
	if !part.full {
		return // only the duplicates exceeded the limit
	}
	since, to := p.query.Since, &p.out.To
	p.out.More = true
	to.Gen = max(since.Gen, upTo)
	switch {
	case p.query.KeepRemoved:
	case since == Start:
		to.Removed = p.table.store.Gen() // a new client never had what was removed before; but see untold
	default:
		to.Removed = max(since.Removed, upTo)
	}
}

// pickForced adds the forced names.
func (p *part) pickForced() {
	force := p.spread(p.query.Force.list())
	var later []string
	for i, name := range force {
		switch {
		case p.addNamed(name, math.MaxUint64), !p.gone(name):
		case p.query.KeepRemoved:
			later = append(later, name)
		default:
			p.removesForced(name, true)
			p.remove(name)
		}
		if p.full {
			later = append(later, force[i:]...)
			break
		}
	}
	p.out.Withheld = NewNames(later)
}

// spread replaces a glob by its members, which may be too many for one part.
func (p *part) spread(names []string) []string {
	if !slices.ContainsFunc(names, resource.IsGlob) {
		return names
	}
	out := make([]string, 0, len(names))
	for _, n := range names {
		before := len(out)
		if g := p.table.store.Glob(n); g != nil {
			for e := range g.Members() {
				if there, _ := p.sub.sees(e); there {
					out = append(out, e.Name)
				}
			}
		}
		if len(out) == before {
			out = append(out, n)
		}
	}
	return out
}

// pickRefreshed adds the names to refresh, except those that are sent as a change.
func (p *part) pickRefreshed() {
	refresh := p.spread(p.query.Refresh.list())
	for i, name := range refresh {
		if !p.full {
			p.addNamed(name, p.query.Since.Gen)
		}
		if p.full {
			p.out.Unrefreshed = NewNames(slices.Clone(refresh[i:]))
			return
		}
	}
}

// addNamed adds the resources that have name, except those that changed after the generation limit:
// all of them or none. It reports whether there are any.
func (p *part) addNamed(name string, limit uint64) (exists bool) {
	var rs []*resource.Resource
	size := 0
	p.eachOf(name, func(e *table.Entry) {
		there, gen := p.look(e)
		if (!there || !e.GoesBy(name)) && !p.uncacheableForPeer(e) {
			return
		}
		exists = true
		if _, dup := p.have[e.Name]; !dup && gen <= limit {
			res := p.shownOf(e)
			rs = append(rs, res)
			size += res.WireSize()
		}
	})
	if p.fits(size) {
		for _, r := range rs {
			p.put(r.Key, r.WireSize())
		}
		p.out.Resources = append(p.out.Resources, rs...)
	}
	return exists
}

// add adds r if there is room.
func (p *part) add(r *resource.Resource) {
	if _, dup := p.have[r.Key]; !dup && p.fits(r.WireSize()) {
		p.put(r.Key, r.WireSize())
		p.out.Resources = append(p.out.Resources, r)
	}
}

// remove adds the removal of name if there is room.
func (p *part) remove(name string) {
	if _, dup := p.have[name]; !dup && p.fits(len(name)+removedSize) {
		p.put(name, len(name)+removedSize)
		p.out.Removed = append(p.out.Removed, name)
	}
}

// fits reports whether there is room for size bytes. An element that is too large for any part is
// sent alone.
func (p *part) fits(size int) bool {
	if size > 0 && p.room < size && len(p.have) > 0 {
		p.full = true
	}
	return !p.full
}

func (p *part) put(name string, size int) {
	p.room -= size
	p.have[name] = struct{}{}
}

// pickOldest adds the oldest changes since the position that fit, and returns the generation of the
// last one.
func (p *part) pickOldest() (upTo uint64) {
	changes := p.changes()
	resources, removed := len(p.out.Resources), len(p.out.Removed)
	fits := 0
	for ; fits < len(changes); fits++ {
		e := changes[fits]
		if p.mustSend(e) {
			p.add(p.shownOf(e))
		} else {
			p.remove(e.Name)
		}
		if p.full {
			break
		}
	}
	if !p.full {
		return 0
	}
	// Changes that arrived together with the first one that does not fit wait for it, unless they
	// are too much for any part (D13).
	first := p.first(changes[fits])
	if resources+removed > 0 || p.first(changes[0]) != first {
		for fits > 0 && p.first(changes[fits-1]) == first {
			fits--
			e := changes[fits]
			if n := len(p.out.Resources) - 1; n >= resources && p.out.Resources[n].Key == e.Name {
				p.out.Resources = p.out.Resources[:n]
			} else if n := len(p.out.Removed) - 1; n >= removed && p.out.Removed[n] == e.Name {
				p.out.Removed = p.out.Removed[:n]
			}
		}
	}
	if fits == 0 {
		return 0
	}
	_, upTo = p.look(changes[fits-1])
	return upTo
}

// first is the generation of the first change of the update that changed e last, as far as the
// subscription sees it.
func (p *picker) first(e *table.Entry) uint64 {
	if _, gen := p.look(e); gen != e.Gen {
		return gen
	}
	return e.First
}

// changes returns what changed since the position, oldest first.
func (p *picker) changes() (changes []*table.Entry) {
	type change struct {
		entry *table.Entry
		gen   uint64
	}
	var all []change
	p.eachSince(func(e *table.Entry) {
		if p.mustSend(e) || p.mustRemove(e) {
			_, gen := p.look(e)
			all = append(all, change{e, gen})
		}
	})
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.gen, b.gen) })
	changes = make([]*table.Entry, len(all))
	for i := range all {
		changes[i] = all[i].entry
	}
	return changes
}
