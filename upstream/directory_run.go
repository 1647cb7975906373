package upstream

import (
	"context"
	"slices"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Run keeps f synchronized with the files until ctx ends. Each key calls it once, on a goroutine of
// its own.
func (d *Directory) Run(ctx context.Context, f *cache.Feed) {
	r := dirRunner{feed: f, own: dirOfKey(f.Key())}
	demand := f.TakeDemand(true, true)
	for {
		snap := d.current.Load()
		r.follow(snap)
		for i := range demand {
			r.answer(&demand[i])
		}
		select {
		case <-ctx.Done():
			return
		case <-snap.replaced:
		case <-f.News():
		}
		f.TakeVerdicts() // files get no answer
		demand = f.TakeDemand(false, true)
	}
}

// Serves reports whether the files may have a name of a type: always.
func (d *Directory) Serves(*resource.Type, string) bool { return true }

// dirRunner is the state of one Run. Its goroutine owns it.
type dirRunner struct {
	feed      *cache.Feed
	own       string // name of the sub-directory of the key
	snap      *dirSnapshot
	interests []*dirInterest // in the order E1
}

// dirInterest is a type that the clients of the key want, and what they were given.
type dirInterest struct {
	typ   *resource.Type
	all   bool     // the wildcard is subscribed
	names []string // names that are subscribed besides it

	set      *dirSet
	complete bool
}

// follow applies the changes of snap to the wanted types.
func (r *dirRunner) follow(snap *dirSnapshot) {
	if snap == r.snap {
		return
	}
	r.snap = snap
	if err := snap.status(r.own); err != nil {
		r.feed.Down(err)
	} else {
		r.feed.Up()
	}
	for _, w := range r.interests {
		if set, complete := snap.lookup(r.own, w.typ); set != w.set || complete != w.complete {
			r.applyAll(w)
		}
	}
}

// answer applies a change of the demand for a type and answers it from the snapshot.
func (r *dirRunner) answer(d *cache.Demand) {
	i := slices.IndexFunc(r.interests, func(w *dirInterest) bool { return w.typ.URL == d.Table.Type.URL })
	if !d.Wildcard && len(d.Names) == 0 {
		if i >= 0 {
			r.interests = slices.Delete(r.interests, i, i+1)
		}
		return
	}
	if i < 0 {
		i = slices.IndexFunc(r.interests, func(w *dirInterest) bool { return w.typ.Order > d.Table.Type.Order })
		if i < 0 {
			i = len(r.interests)
		}
		r.interests = slices.Insert(r.interests, i, &dirInterest{typ: d.Table.Type})
	}
	w := r.interests[i]
	w.all, w.names = d.Wildcard, d.Names
	if d.WildcardChanged || w.set == nil {
		r.applyAll(w)
	} else {
		r.applyNames(w, d.Subscribe)
	}
}

// applyAll passes all resources of a type to the feed.
func (r *dirRunner) applyAll(w *dirInterest) {
	if !r.snap.read {
		return // K13: nothing is known yet
	}
	w.set, w.complete = r.snap.lookup(r.own, w.typ)
	u := cache.Update{Type: w.typ, Resources: w.set.resources}
	if w.complete { // also without any file of the type: the empty answer of B24
		u.Full = true
		if w.all { // otherwise the version would depend on the order in which names were subscribed (K11)
			u.Version = w.set.version
		}
		u.Removed = r.missing(w, w.names)
	} else {
		u.Kind = cache.Partial // K13: a file that was never readable may hold more
	}
	r.feed.Apply(u)
}

// applyNames answers names that are new in the demand if the feed already has the rest of the type.
// Its cost depends on the number of names, not on the number of resources in the files.
func (r *dirRunner) applyNames(w *dirInterest, names []string) {
	u := cache.Update{Type: w.typ, Kind: cache.Partial}
	for _, n := range names {
		u.Resources = append(u.Resources, w.set.find(n)...)
	}
	if w.complete {
		u.Kind, u.Removed = cache.Answer, r.missing(w, names)
	}
	r.feed.Apply(u)
}

// missing returns those of names that no file has, and whose absence clients have not been notified
// of (B34).
func (r *dirRunner) missing(w *dirInterest, names []string) []string {
	return slices.DeleteFunc(r.feed.Missing(w.typ, names), func(n string) bool { return len(w.set.find(n)) > 0 })
}
