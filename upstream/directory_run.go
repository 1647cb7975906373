package upstream

import (
	"context"
	"slices"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Run keeps f in step with the files until ctx ends. It is called once per key,
// on a goroutine of its own.
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
		demand = f.TakeDemand(false, true)
	}
}

// Serves reports whether the files may hold a name of a type: any.
func (d *Directory) Serves(*resource.Type, string) bool { return true }

// dirRunner is the state of one Run, and belongs to its goroutine.
type dirRunner struct {
	feed   *cache.Feed
	own    string // the name of the key's own sub-directory
	snap   *dirSnapshot
	wanted []*dirWant // in the order E1
}

// dirWant is a type that the key's clients want, and what they were given.
type dirWant struct {
	typ   *resource.Type
	all   bool     // everything is wanted
	names []string // and these, by name

	set      *dirSet
	complete bool
}

// follow applies what snap changes of the types in demand.
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
	for _, w := range r.wanted {
		if set, complete := snap.lookup(r.own, w.typ); set != w.set || complete != w.complete {
			r.applyAll(w)
		}
	}
}

// answer takes over what is news in the demand for a type, and answers it from
// the snapshot at once.
func (r *dirRunner) answer(d *cache.Demand) {
	i := slices.IndexFunc(r.wanted, func(w *dirWant) bool { return w.typ.URL == d.Table.Type.URL })
	if !d.Wildcard && len(d.Names) == 0 {
		if i >= 0 {
			r.wanted = slices.Delete(r.wanted, i, i+1)
		}
		return
	}
	if i < 0 {
		i = slices.IndexFunc(r.wanted, func(w *dirWant) bool { return w.typ.Order > d.Table.Type.Order })
		if i < 0 {
			i = len(r.wanted)
		}
		r.wanted = slices.Insert(r.wanted, i, &dirWant{typ: d.Table.Type})
	}
	w := r.wanted[i]
	w.all, w.names = d.Wildcard, d.Names
	if d.WildcardChanged || w.set == nil {
		r.applyAll(w)
	} else {
		r.applyNames(w, d.Subscribe)
	}
}

// applyAll gives the feed all resources of a type.
func (r *dirRunner) applyAll(w *dirWant) {
	if !r.snap.read {
		return // K13: nothing is known yet
	}
	w.set, w.complete = r.snap.lookup(r.own, w.typ)
	u := cache.Update{Type: w.typ, Resources: w.set.resources}
	if w.complete { // without any file of the type: the empty answer of B24
		u.Full = true
		if w.all { // else it would depend on the order in which names were asked for (K11)
			u.Version = w.set.version
		}
		u.Removed = r.missing(w, w.names)
	} else {
		u.Partial = true // K13: a file that was never readable may hold more
	}
	r.feed.Apply(u)
}

// applyNames answers names that are new in the demand, where the feed holds the
// rest of the type already: it costs as much as there are names, however many
// resources the files hold.
func (r *dirRunner) applyNames(w *dirWant, names []string) {
	u := cache.Update{Type: w.typ, Partial: !w.complete}
	for _, n := range names {
		u.Resources = append(u.Resources, w.set.find(n)...)
	}
	if w.complete {
		u.Removed = r.missing(w, names)
	}
	r.feed.Apply(u)
}

// missing returns those of names that no file holds and whose clients have not
// been told so (B34).
func (r *dirRunner) missing(w *dirWant, names []string) []string {
	return slices.DeleteFunc(r.feed.Missing(w.typ, names), func(n string) bool { return len(w.set.find(n)) > 0 })
}
