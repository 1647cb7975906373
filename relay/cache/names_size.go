package cache

import (
	"slices"

	"xdsrelay/relay/cache/demand"
	"xdsrelay/relay/resource"
)

// The names that clients ask for are sent to the control plane in requests that list all of them,
// and servers accept requests up to a size only: a larger one ends the stream of the whole key. So
// the names of a type that a stream asks for are bounded, in bytes. A client whose names exceed the
// bound is rejected before the control plane is asked for them.

// nameOverhead is the maximum size of a name in a request besides the name itself, in bytes.
const nameOverhead = demand.NameOverhead

// NamesOver says that an edit would exceed the bound on the names of a stream.
type NamesOver struct {
	// Stream is the stream, Bytes is the size that its names would have, and Bound is the bound.
	Stream       OriginStream
	Bytes, Bound int

	// For [Table.yield]: the stream, what the edit adds to it, and the resulting size of all names
	// of the client.
	stream, more, wants int
}

// NamesNear says that the names of a stream take four fifths of their bound.
type NamesNear struct {
	Group        *Group
	Type         *resource.Type
	Stream       OriginStream
	Bytes, Bound int
}

// over reports whether the names that a client begins to ask for exceed the bound of a stream; key is
// that of all its names then. Other names may make room, see [Table.yield].
func (t *core) over(key subKey, added []string, spelled map[string]string) *NamesOver {
	if len(added) == 0 || !t.bounded() {
		return nil
	}
	more := make([]int, len(t.streams))
	t.sizes(more, added, spelled)
	return t.exceed(more, key.size())
}

// bounded reports whether any stream has a bound on its names.
func (t *core) bounded() bool {
	return slices.ContainsFunc(t.group.cache.cfg.Streams, func(l OriginStream) bool { return l.MaxNames > 0 })
}

// sizes adds the sizes of those of names to more, by stream, that the stream does not ask for
// yet.
func (t *core) sizes(more []int, names []string, spelled map[string]string) {
	for _, n := range names {
		if w := t.demand.Get(n); w != nil && !w.Shed() {
			continue
		}
		if stream := t.streamOf(n); stream != Nobody {
			more[stream] += demand.RequestSize(n, spelled[n])
		}
	}
}

// exceed reports whether a stream would exceed its bound with more bytes of names, for a
// client whose names take wants bytes then.
func (t *core) exceed(more []int, wants int) *NamesOver {
	for i, stream := range t.group.cache.cfg.Streams {
		size := t.askedSize(i) + more[i]
		exceeds := stream.MaxNames > 0 && more[i] > 0 && size > stream.MaxNames
		if exceeds {
			return &NamesOver{Stream: stream, Bytes: size, Bound: stream.MaxNames, stream: i, more: more[i], wants: wants}
		}
	}
	return nil
}

// askedSize is the size of the names of a stream, including what edits have reserved.
func (t *core) askedSize(stream int) int {
	if t.reserved == nil {
		return t.demand.Stream(stream).Size()
	}
	return t.demand.Stream(stream).Size() + t.reserved[stream]
}

// dropLingering ends the linger time of all names without interest, in steps. t.mu must not be
// held.
func (t *Table) dropLingering() {
	woken := make(map[*Subscription]struct{})
	lingers := func(_ string, w *interest) bool { return w.Lingers() }
	t.endNames(t.namesThat(lingers), lingers, woken)
	t.mu.Lock()
	t.unlockAndSignal()
	t.tidy()
	t.group.cache.wake(woken)
}

// namesThat returns the names for which f holds, including lingering ones. Names whose interest
// begins or ends meanwhile may be missing or superfluous. t.mu must not be held.
func (t *Table) namesThat(f func(string, *interest) bool) (names []string) {
	for n, w := range t.core.interestsInSteps(t.mu.reading()) {
		if f(n, w) {
			names = append(names, n)
		}
	}
	return names
}

// near records that the names of a stream are close to their bound.
func (t *core) near(stream int) {
	to := t.group.cache.cfg.Streams[stream]
	t.nearing = &NamesNear{Group: t.group, Type: t.Type, Stream: to, Bytes: t.demand.Stream(stream).Size(), Bound: to.MaxNames}
}

// fullest is the largest used share of the bound on names, of the streams that have one.
func (t *core) fullest() (share float64) {
	for i, stream := range t.group.cache.cfg.Streams {
		if stream.MaxNames > 0 {
			share = max(share, float64(t.demand.Stream(i).Size())/float64(stream.MaxNames))
		}
	}
	return share
}

// Shed stops asking for names of a type that the control plane has never answered for, because it
// does not accept a request with all of them. It drops the newest first, until half of their bytes
// are gone, and gives their subscribers an error with the reason. It returns how many it dropped.
func (f *Feed) Shed(typ *resource.Type, reason string) (shed int) {
	t := f.group.lookup(typ)
	if t == nil {
		return 0
	}
	for some := range slices.Chunk(t.newestUnanswered(f.stream), f.group.cache.step) {
		var names []string
		f.change(typ, func(t *Table) (Update, bool) {
			errs := make([]resource.About, 0, len(some))
			for _, g := range some {
				if t.core.neverAnswered(f.stream, g.name, t.core.demand.Get(g.name)) {
					names = append(names, g.name)
					errs = append(errs, resource.NewError(t.core.askedAs(g.name), resource.CodeResourceExhausted, reason))
				}
			}
			return Update{Type: typ, Errors: errs, Kind: Partial}, true
		})
		t.mu.Lock()
		for _, n := range names {
			if w := t.core.demand.Get(n); w != nil && !w.Shed() {
				t.core.demand.Shed(w, n, true) // the stream has ended
			}
		}
		t.mu.Unlock()
		shed += len(names)
	}
	return shed
}

// neverAnswered reports whether a stream asks for a name of which nothing was ever received.
func (t *core) neverAnswered(stream int, name string, w *interest) bool {
	return w.AskedOf(stream) && t.unheard(name)
}

// newestUnanswered returns the newest of the names that were never answered, with half of their
// bytes. t.mu must not be held.
func (t *Table) newestUnanswered(stream int) (names []given) {
	bytes := 0
	for n, w := range t.core.interestsInSteps(t.mu.reading()) {
		if t.core.neverAnswered(stream, n, w) {
			names, bytes = append(names, given{n, w.Seq(), w.Size()}), bytes+w.Size()
		}
	}
	slices.SortFunc(names, newestFirst)
	left := (bytes + 1) / 2
	for i, g := range names {
		if left -= g.size; left <= 0 {
			return names[:i+1]
		}
	}
	return names
}
