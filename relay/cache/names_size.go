package cache

import (
	"slices"

	"xdsrelay/relay/resource"
)

// The names that clients ask for are sent to the control plane in requests that list all of them,
// and servers accept requests up to a size only: a larger one ends the stream of the whole key. So
// the names of a type that a stream asks for are bounded, in bytes. A client whose names exceed the
// bound is rejected before the control plane is asked for them.

// nameOverhead is the maximum size of a name in a request besides the name itself, in bytes.
const nameOverhead = 5

func (w *interest) sizeAs(name string) int { return max(len(name), len(w.spelled)) + nameOverhead }

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

// overLocked reports whether the names that a client begins to ask for exceed the bound of a
// stream; key is that of all its names then. Other names may make room, see [Table.yield]. t.mu
// must be held.
func (t *Table) overLocked(key subKey, added []string, spelled map[string]string) *NamesOver {
	if len(added) == 0 || !t.bounded() {
		return nil
	}
	more := make([]int, len(t.streams))
	t.sizesLocked(more, added, spelled)
	return t.exceedLocked(more, key.size())
}

// bounded reports whether any stream has a bound on its names.
func (t *Table) bounded() bool {
	return slices.ContainsFunc(t.group.cache.cfg.Streams, func(l OriginStream) bool { return l.MaxNames > 0 })
}

// sizesLocked adds the sizes of those of names to more, by stream, that the stream does not ask for
// yet.
func (t *Table) sizesLocked(more []int, names []string, spelled map[string]string) {
	for _, n := range names {
		if w := t.interests[n]; w != nil && !w.shed {
			continue
		}
		if stream := t.streamOf(n); stream != Nobody {
			more[stream] += max(len(n), len(spelled[n])) + nameOverhead
		}
	}
}

// exceedLocked reports whether a stream would exceed its bound with more bytes of names, for a
// client whose names take wants bytes then.
func (t *Table) exceedLocked(more []int, wants int) *NamesOver {
	for i, stream := range t.group.cache.cfg.Streams {
		size := t.askedSizeLocked(i) + more[i]
		exceeds := stream.MaxNames > 0 && more[i] > 0 && size > stream.MaxNames
		if exceeds {
			return &NamesOver{Stream: stream, Bytes: size, Bound: stream.MaxNames, stream: i, more: more[i], wants: wants}
		}
	}
	return nil
}

// askedSizeLocked is the size of the names of a stream, including what edits have reserved.
func (t *Table) askedSizeLocked(stream int) int {
	if t.reserved == nil {
		return t.streams[stream].size
	}
	return t.streams[stream].size + t.reserved[stream]
}

// dropLingering ends the linger time of all names without interest, in steps. t.mu must not be
// held.
func (t *Table) dropLingering() {
	woken := make(map[*Subscription]struct{})
	t.endNames(t.namesThat((*interest).lingers), (*interest).lingers, woken)
	t.mu.Lock()
	t.unlockAndSignal()
	t.tidy()
	t.group.cache.wake(woken)
}

// namesThat returns the names for which f holds, including lingering ones. Names whose interest
// begins or ends meanwhile may be missing or superfluous. t.mu must not be held.
func (t *Table) namesThat(f func(*interest) bool) (names []string) {
	for n, w := range inSteps(t, t.mu.reading(), &t.interests) {
		if f(w) {
			names = append(names, n)
		}
	}
	return names
}

// measureLocked counts a name that a stream begins to ask for.
func (t *Table) measureLocked(stream *typeStreamState, w *interest, name string) {
	w.size = int32(w.sizeAs(name)) //nolint:gosec // requests are smaller
	stream.size += int(w.size)
	bound := t.group.cache.cfg.Streams[w.stream].MaxNames
	if bound > 0 && !stream.near && stream.size > bound/5*4 {
		stream.near = true
		t.nearing = &NamesNear{Group: t.group, Type: t.Type, Stream: t.group.cache.cfg.Streams[w.stream], Bytes: stream.size, Bound: bound}
	}
}

// unmeasureLocked counts a name that a stream no longer asks for.
func (t *Table) unmeasureLocked(stream *typeStreamState, w *interest) {
	stream.size -= int(w.size)
	w.size = 0
	if bound := t.group.cache.cfg.Streams[w.stream].MaxNames; stream.size < bound/5*3 {
		stream.near = false
	}
}

// fullestLocked is the largest used share of the bound on names, of the streams that have one.
func (t *Table) fullestLocked() (share float64) {
	for i, stream := range t.group.cache.cfg.Streams {
		if stream.MaxNames > 0 {
			share = max(share, float64(t.streams[i].size)/float64(stream.MaxNames))
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
				if t.neverAnsweredLocked(f.stream, g.name, t.interests[g.name]) {
					names = append(names, g.name)
					errs = append(errs, resource.NewError(t.askedAsLocked(g.name), resource.CodeResourceExhausted, reason))
				}
			}
			return Update{Type: typ, Errors: errs, Partial: true}, true
		})
		t.mu.Lock()
		for _, n := range names {
			if w := t.interests[n]; w != nil && !w.shed {
				w.asked = false // the stream has ended
				t.shedLocked(w)
			}
		}
		t.mu.Unlock()
		shed += len(names)
	}
	return shed
}

// neverAnsweredLocked reports whether a stream asks for a name of which nothing was ever received.
func (t *Table) neverAnsweredLocked(stream int, name string, w *interest) bool {
	return w != nil && w.stream == stream && !w.shed && t.store.Get(name) == nil && !t.failedLocked(name)
}

// newestUnanswered returns the newest of the names that were never answered, with half of their
// bytes. t.mu must not be held.
func (t *Table) newestUnanswered(stream int) (names []given) {
	bytes := 0
	for n, w := range inSteps(t, t.mu.reading(), &t.interests) {
		if t.neverAnsweredLocked(stream, n, w) {
			names, bytes = append(names, given{n, w.seq, int(w.size)}), bytes+int(w.size)
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
