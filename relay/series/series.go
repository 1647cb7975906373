// Package series keeps what a node was like over the last hour, in samples of ten
// seconds and within bounded memory, and adds up what several nodes kept. Pure.
package series

import "math"

// Step is the time between two samples, in seconds. They are taken at multiples of it,
// so that those of several nodes fit together. Kept is how many a node keeps: an hour.
const (
	Step = 10
	Kept = 360
)

// States is how many states of clients are told apart, the worst first.
const States = 5

// Totals are what a node counts from its start. Bounds of times are those of the
// histogram of which Took are the counts, one more than there are bounds.
type Totals struct {
	StreamsIn    int64 `json:"streams_in"`    // to control planes, as of now
	StreamsOut   int64 `json:"streams_out"`   // of clients, as of now
	BytesIn      int64 `json:"bytes_in"`      // of responses of control planes
	BytesOut     int64 `json:"bytes_out"`     // of responses to clients
	ResponsesIn  int64 `json:"responses_in"`  // of control planes
	ResponsesOut int64 `json:"responses_out"` // to clients
	Nacks        int64 `json:"nacks"`         // of clients

	Bounds []float64 `json:"-"`
	Took   []uint64  `json:"-"`
}

// Add adds the numbers of another node, but for times.
func (t *Totals) Add(o Totals) {
	t.StreamsIn += o.StreamsIn
	t.StreamsOut += o.StreamsOut
	t.BytesIn += o.BytesIn
	t.BytesOut += o.BytesOut
	t.ResponsesIn += o.ResponsesIn
	t.ResponsesOut += o.ResponsesOut
	t.Nacks += o.Nacks
}

// Now is a node at a moment.
type Now struct {
	Clients int         `json:"c"`
	States  [States]int `json:"s"`
	Members int         `json:"m"` // nodes of the tier, as this one sees it
}

// Sample is a node at a moment, and what it did in the time before it.
type Sample struct {
	At int64 `json:"t"` // Unix time in seconds, a multiple of Step
	Now

	In  int64 `json:"i"` // streams to control planes
	Out int64 `json:"o"` // streams of clients
	// Rates are bytes in and out, responses in and out, and rejections, each per second.
	Rates [5]float32 `json:"r"`
	// Took counts the answers of clients by how long an update was on its way to them,
	// by the bounds of the [Ring].
	Took []uint32 `json:"h,omitempty"`
}

// Ring keeps the newest samples. It is for one goroutine at a time.
type Ring struct {
	samples []Sample // a ring once it is full
	next    int
	last    Totals
	at      Moment // when they were read; zero for never
}

// Moment is a time by two clocks, in seconds: of the wall, as Unix time, which may be set,
// and of one that only goes on, from whenever.
type Moment struct{ Wall, Steady float64 }

// Add adds a sample of a moment. Of a time without any, what was done goes to the next
// sample, spread over it. A second one for the same multiple of Step is left out. Where
// the clock of the wall was set back, what is there goes back with it: it was as long ago
// as it was.
func (r *Ring) Add(now Moment, is Now, t Totals) {
	over := now.Steady - r.at.Steady
	first := len(r.samples) == 0
	if set := now.Wall - r.at.Wall - over; !first && set <= -Step/2 {
		for i := range r.samples {
			r.samples[i].At += int64(math.Floor(set/Step)) * Step
		}
	}
	at := int64(now.Wall) / Step * Step
	if !first && r.newest().At >= at {
		return
	}
	s := Sample{At: at, Now: is, In: t.StreamsIn, Out: t.StreamsOut}
	if !first && over > 0 {
		rate := func(now, before int64) float32 { return float32(float64(max(0, now-before)) / over) }
		s.Rates = [5]float32{
			rate(t.BytesIn, r.last.BytesIn), rate(t.BytesOut, r.last.BytesOut), rate(t.ResponsesIn, r.last.ResponsesIn),
			rate(t.ResponsesOut, r.last.ResponsesOut), rate(t.Nacks, r.last.Nacks),
		}
		s.Took = since(t.Took, r.last.Took)
	}
	r.last, r.at = t, now
	if len(r.samples) < Kept {
		r.samples = append(r.samples, s)
		return
	}
	r.samples[r.next] = s
	r.next = (r.next + 1) % Kept
}

// since is by how much the counts of a histogram have grown; nil if by nothing.
func since(now, before []uint64) []uint32 {
	var out []uint32
	for i, n := range now {
		if i < len(before) {
			n -= min(n, before[i])
		}
		if n > 0 {
			if out == nil {
				out = make([]uint32, len(now))
			}
			out[i] = uint32(min(n, math.MaxUint32))
		}
	}
	return out
}

// newest needs a sample.
func (r *Ring) newest() *Sample {
	return &r.samples[(r.next+len(r.samples)-1)%len(r.samples)]
}

// Totals are the newest that were read.
func (r *Ring) Totals() Totals { return r.last }

// After are the samples after a moment, the oldest first.
func (r *Ring) After(at int64) []Sample {
	out := []Sample{}
	for i := range r.samples {
		if s := r.samples[(r.next+i)%len(r.samples)]; s.At > at {
			out = append(out, s)
		}
	}
	return out
}

// Part is what one node reports of itself, by name.
type Part struct {
	Node    string    `json:"node"`
	Bounds  []float64 `json:"bounds"` // upper ones of Took, in seconds
	Samples []Sample  `json:"samples"`
}
