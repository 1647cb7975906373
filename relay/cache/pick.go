package cache

import (
	"slices"
	"strings"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// picker collects the Changes of one subscription. The table's mu must be held, at least for
// reading.
type picker struct {
	table *core
	sub   *Subscription
	query Query
	out   *Changes
	// leftover is the digest of resources that are removed but still shown.
	leftover resource.Digest
	loose    unordered
}

// pickSince picks what changed since the position.
func (p *picker) pickSince() {
	inOrder := p.eachSince(p.pick)
	if inOrder {
		slices.Reverse(p.out.Resources)
	} else {
		p.loose.news = len(p.out.Resources)
		p.loose.all = p.loose.news
	}
}

// eachSince calls f for each entry that changed since the position, and maybe for others. It reports
// whether it went from the newest to the oldest.
func (p *picker) eachSince(f func(*table.Entry)) (inOrder bool) {
	v := p.query.View
	if v == nil {
		return p.eachStored(f)
	}
	p.eachStored(v.without(f))
	v.each(f)
	return false
}

// eachStored is eachSince without a view: it walks the table from the newest change back to the
// position, or the names of the subscription if these are fewer.
func (p *picker) eachStored(f func(*table.Entry)) (inOrder bool) {
	oldest := min(p.query.Since.Gen, p.query.Since.Removed)
	if p.query.KeepRemoved {
		oldest = p.query.Since.Gen
	}
	if !p.sub.key.wildcard {
		steps, most := 0, p.reach()+8
		for e := p.table.store.Newest(); e != nil && e.Gen > oldest; e = e.Older() {
			if steps++; steps > most {
				p.table.eachNamed(p.sub, f)
				return false
			}
		}
	}
	for e := p.table.store.Newest(); e != nil && e.Gen > oldest; e = e.Older() {
		f(e)
	}
	return true
}

// reach estimates how many entries the subscription can see by name.
func (p *picker) reach() int {
	n := len(p.sub.names)
	p.table.eachGlob(p.sub, func(g *table.Glob) { n += g.Len() })
	return n
}

// pick adds e if it has to be sent.
func (p *picker) pick(e *table.Entry) {
	if p.mustSend(e) {
		p.out.Resources = append(p.out.Resources, p.shownOf(e))
	} else if p.mustRemove(e) {
		p.out.Removed = append(p.out.Removed, e.Name)
	}
}

// look returns what the subscription sees of e: whether there is a resource, and the generation of
// the last change that concerns the client; 0 if it never saw e.
func (p *picker) look(e *table.Entry) (there bool, gen uint64) {
	there, gen = p.sub.sees(e)
	switch {
	case there && p.query.Basis != RejectedSince && e.Gap().Bridges(p.query.Since.Gen, p.query.Since.Removed):
		gen = e.Gap().From // a client that has rejected an update may have rejected this removal
	case there && p.query.Basis == Spared && gen == e.Gen:
		gen = p.table.errored.SparedFrom(e.Name, e.Gen)
	case !there && p.sub.saw(e):
		gen = e.Gen
	}
	return there, gen
}

// mustSend reports whether e is a resource that the subscription covers and that changed since the
// position.
func (p *picker) mustSend(e *table.Entry) bool {
	there, gen := p.look(e)
	return there && gen > p.query.Since.Gen || p.uncacheableForPeer(e) && e.Gen > p.query.Since.Gen
}

// uncacheableForPeer reports whether another node gets only the information that e must not be
// shared.
func (p *picker) uncacheableForPeer(e *table.Entry) bool {
	return p.query.Reader == OtherNode && p.table.coversUncacheable(p.sub, e)
}

// shownOf is what is sent of e.
func (p *picker) shownOf(e *table.Entry) *resource.Resource {
	if e.Res == nil {
		return p.table.uncacheableNotice(e.Name)
	}
	return e.Res
}

// mustRemove reports whether e was removed, or left the subscription's view, since the position, or
// is absent without the client having been notified (B34).
func (p *picker) mustRemove(e *table.Entry) bool {
	since := p.query.Since
	there, gen := p.look(e)
	if p.query.KeepRemoved || there || e.Denied || p.void(e) || p.query.OmitAssumed && p.table.isAssumed(e.Name) || p.query.Keep.Has(e.Name) {
		return false
	}
	return gen > since.Removed || gen > since.Gen && (p.table.misses(p.sub, e) || p.query.View.replaces(e.Name) && p.sub.means(e))
}

// withholds reports whether there are removals since the position that KeepRemoved holds back.
func (p *picker) withholds() (yes bool) {
	q := *p
	q.query.KeepRemoved = false
	q.eachSince(func(e *table.Entry) { yes = yes || !q.mustSend(e) && q.mustRemove(e) })
	return yes
}

// void reports whether e is the tombstone of a glob that is no news: it is not empty any more, or
// was never asked for.
func (p *picker) void(e *table.Entry) bool {
	if !e.Structured() || !resource.IsGlob(e.Name) {
		return false
	}
	_, named := p.sub.names[e.Name]
	return !named || p.table.store.Exists(e.Name)
}

// pickForced adds the names to refresh and the forced ones: the resources, or that they do not
// exist. A name of which nothing is known yet is omitted; it will be sent as a change (K13).
func (p *picker) pickForced() {
	have := make(map[string]struct{}, len(p.out.Resources)+len(p.out.Removed)) // no name may be sent twice (B29)
	for _, r := range p.out.Resources {
		have[r.Key] = struct{}{}
	}
	for _, n := range p.out.Removed {
		have[n] = struct{}{}
	}
	for _, name := range p.query.Refresh.list() {
		p.addNamed(name, have)
	}
	var withheld, unknown, unjudged []string
	for _, name := range p.query.Force.list() {
		if p.addNamed(name, have) {
			continue
		}
		if !p.gone(name) {
			unknown = append(unknown, name)
			if p.unjudged(name) {
				unjudged = append(unjudged, name)
			}
			continue
		}
		if _, dup := have[name]; dup {
			continue
		}
		have[name] = struct{}{}
		if p.query.KeepRemoved {
			withheld = append(withheld, name)
		} else {
			p.removesForced(name, false)
			p.out.Removed = append(p.out.Removed, name)
		}
	}
	p.out.Withheld, p.out.Unknown, p.out.Unjudged = NewNames(withheld), NewNames(unknown), NewNames(unjudged)
}

// leftOut reports whether there are changes since the position besides what was picked.
func (p *picker) leftOut() (yes bool) {
	have := make(map[*resource.Resource]struct{}, len(p.out.Resources))
	for _, r := range p.out.Resources {
		have[r] = struct{}{}
	}
	p.eachSince(func(e *table.Entry) {
		_, there := have[e.Res]
		yes = yes || p.mustSend(e) && !there || p.mustRemove(e) && !slices.Contains(p.out.Removed, e.Name)
	})
	return yes
}

// addNamed adds the resources that have name, as far as the subscription covers them and they are
// not added yet. It reports whether there are any.
func (p *picker) addNamed(name string, have map[string]struct{}) (exists bool) {
	p.eachOf(name, func(e *table.Entry) {
		if there, _ := p.sub.sees(e); (!there || !e.GoesBy(name)) && !p.uncacheableForPeer(e) {
			return
		}
		exists = true
		if _, dup := have[e.Name]; !dup {
			have[e.Name] = struct{}{}
			p.out.Resources = append(p.out.Resources, p.shownOf(e))
		}
	})
	return exists
}

// eachOf calls f for the entries that clients may know by name.
func (p *picker) eachOf(name string, f func(*table.Entry)) {
	if e := p.query.View.get(name); e != nil {
		f(e)
		return
	}
	p.table.store.EachOf(name, f)
}

// gone reports whether it is known that name does not exist, or that the subscription does not
// cover it.
func (p *picker) gone(name string) bool {
	if p.query.View.replaces(name) {
		return true
	}
	t, s := p.table, p.sub
	e := t.store.Get(name)
	_, named := s.names[name]
	about, failed := t.failure(name)
	switch {
	case e != nil && e.Denied && (s.asksFor(e) || s.key.wildcard && e.Stream == t.demand.Wildcard().Stream()):
		return false
	case e != nil && s.asksFor(e):
		return true // a tombstone: see picker.addNamed
	case e == nil && failed && (named || s.key.wildcard || t.covers(s, name)):
		return about.Code == resource.CodeNotFound
	case named: // a name of the same stream belongs to the wildcard set, if it exists at all (D11)
		w := t.demand.Get(name)
		return s.key.wildcard && t.wildJudged() && w.Stream() == t.demand.Wildcard().Stream() && t.demand.Answered(w) && !t.demand.Open(w, name)
	case t.covers(s, name):
		return !t.opens(s, name)
	case s.key.wildcard:
		return t.judged(name)
	}
	return true
}

// unjudged reports whether a glob or the wildcard of the subscription still waits for the answer
// that would decide whether name exists, and nothing else would.
func (p *picker) unjudged(name string) bool {
	t, s := p.table, p.sub
	e := t.store.Get(name)
	if _, named := s.names[name]; named || t.failed(name) || e != nil && (e.Denied || s.asksFor(e)) {
		return false
	}
	if t.covers(s, name) {
		return t.opens(s, name)
	}
	return s.key.wildcard && !t.judged(name)
}

// pickWhole replaces what was picked by everything that the subscription sees.
func (p *picker) pickWhole() {
	p.out.Resources, p.loose.all = p.out.Resources[:0], 0
	pick, v := p.pickState, p.query.View
	if v != nil {
		pick = v.without(pick)
	}
	if p.sub.key.wildcard {
		for e := p.table.store.Oldest(); e != nil; e = e.Newer() {
			pick(e)
		}
	} else {
		p.table.eachNamed(p.sub, pick)
		p.loose.all = len(p.out.Resources)
	}
	if v != nil {
		v.each(p.pickState)
		p.loose.all = len(p.out.Resources)
	}
}

// pickState adds the resource of e, or the one before a removal that is held back.
func (p *picker) pickState(e *table.Entry) {
	there, gen := p.sub.sees(e)
	if there {
		p.out.Resources = append(p.out.Resources, e.Res)
		return
	}
	was := e.Last()
	if e.Res != nil {
		was = e.Res // it left the wildcard set (D11)
	}
	switch {
	case was == nil || gen <= p.query.Since.Removed && !p.leaves(e):
	case p.query.KeepRemoved:
		p.out.Resources = append(p.out.Resources, was)
		p.leftover = p.leftover.Add(was.Member())
	default:
		p.out.Removals = SomeRemovals
	}
}

// leaves reports whether e is the absence of a resource that the client sees before it enters the view.
func (p *picker) leaves(e *table.Entry) bool {
	if e.Res != nil || !p.query.Force.has(e.Name) || !p.query.View.replaces(e.Name) {
		return false
	}
	was := p.table.store.Get(e.Name)
	return was != nil && p.sub.seesNow(was)
}

// finish completes an answer once everything is picked.
func (p *picker) finish() {
	p.pickLifetimes()
	p.out.Version, p.out.Derived = p.table.version(p.sub, p.query.View, p.leftover)
	p.out.System = p.system()
	if v := p.query.View; v != nil {
		of := func(r *resource.Resource) bool { return v.replaces(r.Key) }
		p.out.Replaced = slices.ContainsFunc(p.out.Resources, of) || slices.ContainsFunc(p.out.Removed, v.replaces)
	}
}

// system is a delta control plane's version of exactly what the client has after the answer; empty
// if there is none, such as while something is left to a later answer.
func (p *picker) system() (none resource.SystemVersion) {
	q, out := p.query, p.out
	if out.More || q.Scope.IsOnDemand() || q.Scope == NotesOnly || out.Withheld != nil {
		return none
	}
	system := p.table.system(p.sub, p.query.View)
	if system.Version == "" || q.KeepRemoved && p.withholds() {
		return none
	}
	return system
}

func sortByName(rs []*resource.Resource) {
	slices.SortFunc(rs, func(a, b *resource.Resource) int { return strings.Compare(a.Name, b.Name) })
}
