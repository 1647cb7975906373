package demand

import (
	"fmt"

	"xdsrelay/relay/resource"
)

// Check recomputes from scratch what the demand maintains incrementally. It returns a sentence for
// each difference, and nothing if all is well. The cost is proportional to the number of names.
func (d *Demand[S]) Check() []string {
	d.guard.Reading()
	c := checker[S]{demand: d}
	c.interests()
	for i := range d.streams {
		c.stream(i)
	}
	return c.wrong
}

// checker collects what is wrong with a demand.
type checker[S comparable] struct {
	demand *Demand[S]
	wrong  []string
}

func (c *checker[S]) complain(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// interests checks the states of names, and the sums over them.
func (c *checker[S]) interests() {
	d := c.demand
	var lingering, without int
	var bytes int64
	for name, w := range d.interests {
		c.interest(name, w)
		bytes += Cost(name)
		if w.Lingers() {
			lingering++
		}
		if w.state == shed {
			without++
		}
		if w.stream == Nobody {
			continue
		}
		s := &d.streams[w.stream]
		if _, pending := s.changes[name]; w.state == unasked && !pending {
			c.complain("%q is wanted, but no stream will request it", name)
		}
		if _, listed := s.unanswered[name]; listed && !s.outdated && !d.Open(w, name) {
			c.complain("%q was answered, but is listed as unanswered", name)
		}
	}
	c.interest("*", &d.wild)
	if lingering != d.lingering {
		c.complain("%d names linger, and %d are counted", lingering, d.lingering)
	}
	if without != d.shed {
		c.complain("%d names were shed, and %d are counted", without, d.shed)
	}
	if bytes != d.bytes {
		c.complain("the interests take %d bytes, but %d are counted", bytes, d.bytes)
	}
}

// interest checks one interest.
func (c *checker[S]) interest(name string, w *Interest[S]) {
	if w.seq > c.demand.seq || w.subs.Len() > 0 != w.expires.IsZero() && w.seq > 0 {
		c.complain("%q is wanted by %d subscriptions, and lingers until %v", name, w.subs.Len(), w.expires)
	}
	c.spelling(name, w.spelled)
}

// spelling checks that a spelling is one of a name, and not the canonical one.
func (c *checker[S]) spelling(name, spelled string) {
	if spelled == name || spelled != "" && resource.Canonical(spelled) != name {
		c.complain("%q is asked for as %q", name, spelled)
	}
}

// stream checks what was asked on a stream.
func (c *checker[S]) stream(i int) {
	d, s := c.demand, &c.demand.streams[i]
	wanted, size := 0, 0
	for name, w := range d.interests {
		if w.stream != i {
			continue
		}
		wanted++
		if w.state == shed != (w.size == 0) || w.state != shed && int(w.size) != RequestSize(name, w.spelled) {
			c.complain("%q takes %d bytes of a request", name, w.size)
		}
		size += int(w.size)
	}
	for name, w := range s.unanswered {
		if d.interests[name] != w {
			c.complain("%q waits for an answer, but is not wanted", name)
		}
	}
	for name, change := range s.changes {
		c.spelling(name, change.spelled)
	}
	wild := d.WildcardOn(i)
	if wild {
		wanted++
	}
	if wild != s.wildcardAsked && !s.wildcardChanged {
		c.complain("the wildcard is wanted %t and asked for %t, and that will not change", wild, s.wildcardAsked)
	}
	if wanted != s.wanted || size != s.size {
		c.complain("%d names with %d bytes are wanted of leg %d, but %d and %d are counted", wanted, size, i, s.wanted, s.size)
	}
	if s.answered > s.asked || s.asked > d.seq {
		c.complain("leg %d: answered %d, asked %d, wanted %d", i, s.answered, s.asked, d.seq)
	}
}
