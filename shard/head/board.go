package head

// board is what a node knows of the stamps of the buckets in which it has keys. It is pure: [Heads]
// guards it.
type board struct {
	// any is the stamp of all buckets from a time when the node had read all buckets that differed;
	// empty for never. As long as Redis has the same stamp, nothing has changed.
	any string
	own map[int]*bucket
}

// bucket is a bucket in which the node has keys.
type bucket struct {
	keys map[string]struct{}
	// stamp is a stamp that Redis had; empty for none. known is true if the heads of all keys have
	// been read since, or are about to be.
	stamp string
	known bool
}

func newBoard() board { return board{own: make(map[int]*bucket)} }

// add adds a key, which the caller reads, and reports whether it is the first of its bucket.
func (b *board) add(key string) (first bool) {
	n := bucketOf(key)
	own := b.own[n]
	if first = own == nil; first {
		own = &bucket{keys: make(map[string]struct{})}
		b.own[n] = own
		b.any = ""
	}
	own.keys[key] = struct{}{}
	return first
}

// remove removes a key, and reports whether it was the last of its bucket.
func (b *board) remove(key string) (last bool) {
	n := bucketOf(key)
	own := b.own[n]
	if own == nil {
		return false
	}
	delete(own.keys, key)
	if last = len(own.keys) == 0; last {
		delete(b.own, n)
	}
	return last
}

// eachKey calls f for the keys of a bucket.
func (b *board) eachKey(n int, f func(key string)) {
	if own := b.own[n]; own != nil {
		for key := range own.keys {
			f(key)
		}
	}
}

// forget records that a key could not be read: its bucket counts as changed.
func (b *board) forget(key string) {
	if own := b.own[bucketOf(key)]; own != nil {
		own.known = false
		b.any = ""
	}
}

// changed returns the buckets whose heads the node does not know.
func (b *board) changed(now stamps) (all []int) {
	for n, own := range b.own {
		if !own.known || own.stamp != now.buckets[n] {
			all = append(all, n)
		}
	}
	return all
}

// markKnown records that the heads of a bucket have been read since Redis had this stamp.
func (b *board) markKnown(n int, stamp string) {
	if own := b.own[n]; own != nil {
		own.stamp, own.known = stamp, true
	}
}

// explain records that a stamp was replaced because of a change that the node knows, or is about to
// read. It counts only if the node knew the state before. The stamp of all buckets is unknown then:
// a Redis that has the earlier one again has lost the change.
func (b *board) explain(n int, from, to string) {
	if own := b.own[n]; own != nil && own.known && own.stamp == from {
		own.stamp = to
		b.any = ""
	}
}
