package events

import (
	"slices"
	"time"
)

// Bounds of a ring: events, bytes, and events of one kind in a minute, so that one kind does not
// displace all others.
const (
	mostEvents    = 1000
	mostBytes     = 512 << 10
	mostPerMinute = 60
)

// Ring keeps the newest events of a node. It is for one goroutine at a time; the zero value is
// empty.
type Ring struct {
	events []Event // oldest first
	bytes  int
	last   uint64 // Seq of the newest
	rates  map[Kind]*rate
}

// rate counts events of a kind in a minute.
type rate struct {
	began   time.Time
	n       int
	omitted int // since the last one that was recorded
}

// Add records an event, numbers it, and reports whether it was recorded.
func (r *Ring) Add(e Event) (Event, bool) {
	if r.rates == nil {
		r.rates = make(map[Kind]*rate)
	}
	of := r.rates[e.Kind]
	if of == nil {
		of = &rate{began: e.Time}
		r.rates[e.Kind] = of
	}
	if since := e.Time.Sub(of.began); since >= time.Minute || since < 0 {
		of.began, of.n = e.Time, 0
	}
	if of.n++; of.n > mostPerMinute {
		of.omitted++
		return e, false
	}
	e.Omitted, of.omitted = of.omitted, 0
	r.last++
	e.Seq = r.last
	r.events = append(r.events, e)
	r.bytes += e.size()
	drop := 0
	for len(r.events)-drop > mostEvents || r.bytes > mostBytes && len(r.events)-drop > 1 {
		r.bytes -= r.events[drop].size()
		drop++
	}
	if drop > 0 {
		r.events = slices.Delete(r.events, 0, drop)
	}
	return e, true
}

// Part is what a ring has for a reader.
type Part struct {
	Node string `json:"node"`
	// Run names the run of the process: numbers begin again with each.
	Run string `json:"run"`
	// Last is the number of the newest event, Lost how many after the reader's last one are no
	// longer kept.
	Last   uint64  `json:"last"`
	Lost   uint64  `json:"lost,omitempty"`
	Events []Event `json:"events"`
	// Omitted are events that were not recorded and that no later event of their kind counts yet.
	Omitted map[Kind]int `json:"omitted,omitempty"`
}

// After returns the events behind the number after, and those since a time, oldest first.
func (r *Ring) After(after uint64, since time.Time) Part {
	p := Part{Last: r.last, Events: []Event{}}
	if after > 0 && len(r.events) > 0 && r.events[0].Seq > after+1 {
		p.Lost = r.events[0].Seq - after - 1
	}
	for _, e := range r.events {
		if e.Seq > after || !since.IsZero() && !e.Time.Before(since) {
			p.Events = append(p.Events, e)
		}
	}
	for kind, of := range r.rates {
		if of.omitted > 0 {
			if p.Omitted == nil {
				p.Omitted = make(map[Kind]int)
			}
			p.Omitted[kind] = of.omitted
		}
	}
	return p
}
