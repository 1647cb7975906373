package cache

import (
	"slices"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// A server that sends a full state again usually keeps the order, and has changed little. So a table
// remembers the order of the last full state of a stream, for 8 bytes per resource, and finds most of the
// next one by its place instead of by its name. The order proves nothing: what is not at its place is
// looked up.

// ordering follows the order of the last full state of a stream while the next one is applied. Its zero value
// finds nothing, and remembers nothing.
type ordering struct {
	last   []*table.Entry // different ones, in the order of the last full state; never changed
	places resource.Places
	room   int            // that the new order may need; 0: it is not remembered
	same   int            // the new order begins with this many of last
	now    []*table.Entry // the new order; nil while it is nothing but that beginning
}

// ordering returns what u is compared with. An update that [Cache.step] can hold has no order worth
// its memory.
func (t *core) ordering(by int, u *Update) ordering {
	o := ordering{last: t.streams[by].order}
	if u.Full && u.Mirror == nil && len(u.Resources) >= t.group.cache.step {
		o.room = len(u.Resources)
	}
	return o
}

// atPlace returns the entry of res if it is at its place; nil proves nothing.
func (o *ordering) atPlace(by int, res *resource.Resource) *table.Entry {
	if len(o.last) == 0 {
		return nil
	}
	place, ok := o.places.Seek(len(o.last), func(place int) bool {
		e := o.last[place]
		return e.Res != nil && (e.Res == res && e.Stream == by || e.Name == res.Key) // one without a resource may be forgotten
	})
	if !ok {
		return nil
	}
	return o.last[place]
}

// add appends e to the new order.
func (o *ordering) add(e *table.Entry) {
	switch {
	case o.room == 0:
	case o.now == nil && o.same < len(o.last) && o.last[o.same] == e:
		o.same++
	default:
		if o.now == nil {
			o.now = make([]*table.Entry, o.same, max(o.room, o.same+1))
			copy(o.now, o.last)
		}
		o.now = append(o.now, e)
	}
}

// order is the new order; nil if none is remembered.
func (o *ordering) order() []*table.Entry {
	switch {
	case o.room == 0:
		return nil
	case o.now == nil:
		if o.same < len(o.last) {
			return slices.Clone(o.last[:o.same]) // frees the rest
		}
		return o.last
	}
	return o.now
}

// orderOf returns the resources of a stream's last full state at their places, nil for those that the
// stream no longer has, and the number of places. One goroutine may use it.
func (t *Table) orderOf(stream int) (at func(place int) *resource.Resource, places int) {
	t.mu.RLock()
	order := t.core.streams[stream].order
	t.mu.RUnlock()
	if len(order) == 0 {
		return nil, 0
	}
	read := make([]*resource.Resource, 0, len(order))
	return func(place int) *resource.Resource {
		for place >= len(read) { // in steps, since there may be very many
			t.mu.RLock()
			for _, e := range order[len(read):min(len(order), len(read)+t.group.cache.step)] {
				var res *resource.Resource
				if c := e.CopyFrom(stream); c != nil {
					res = c.Res
				}
				read = append(read, res)
			}
			t.mu.RUnlock()
		}
		return read[place]
	}, len(order)
}

// forgetOrders frees the entries that only the orders still have.
func (t *core) forgetOrders() {
	for i := range t.streams {
		t.streams[i].order = nil
	}
}
