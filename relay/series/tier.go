package series

import (
	"maps"
	"math"
	"slices"
)

// Tier is what all nodes of a tier were like, column by column: element i of each is
// about the time At[i].
type Tier struct {
	Step int     `json:"step_seconds"`
	At   []int64 `json:"at"` // Unix time in seconds
	// Incomplete are times at which the tier had nodes of which there is no sample, since
	// they left too suddenly or do not answer. They are left out of all columns: a sum
	// without a node would look like fewer clients.
	Incomplete []int64 `json:"incomplete"`
	// Nodes is of how many nodes there is a sample.
	Nodes   []int `json:"nodes"`
	Clients []int `json:"clients"`
	// States are clients by state, under its name in lower case.
	States map[string][]int `json:"states"`
	// In and Out are streams to control planes, and of clients.
	In  []int64 `json:"streams_in"`
	Out []int64 `json:"streams_out"`
	// The rates are per second, over the time before.
	BytesIn      []float64 `json:"bytes_in"`
	BytesOut     []float64 `json:"bytes_out"`
	ResponsesIn  []float64 `json:"responses_in"`
	ResponsesOut []float64 `json:"responses_out"`
	Nacks        []float64 `json:"nacks"`
	// P50 and P99 are seconds from storing an update to a client's ACK, over the time
	// before; null where no client took any.
	P50 []*float64 `json:"p50"`
	P99 []*float64 `json:"p99"`
	// Answers is of how many ACKs.
	Answers []uint64 `json:"answers"`
}

// slot is a moment of all nodes.
type slot struct {
	sum   Sample
	rates [5]float64
	took  []uint64
	nodes int
}

// add adds the sample of a node; members is how many nodes there were at least, and
// sameBounds says that its times have the bounds of those of the others.
func (one *slot) add(s *Sample, members int, sameBounds bool) {
	one.nodes++
	one.sum.Clients += s.Clients
	one.sum.In += s.In
	one.sum.Out += s.Out
	one.sum.Members = max(one.sum.Members, members)
	for i := range s.States {
		one.sum.States[i] += s.States[i]
	}
	for i, rate := range s.Rates {
		one.rates[i] += float64(rate)
	}
	if !sameBounds {
		return // a node of another version
	}
	for i, n := range s.Took {
		if one.took == nil {
			one.took = make([]uint64, len(s.Took))
		}
		one.took[i] += uint64(n)
	}
}

// Join adds up what nodes report, after one moment and up to another: what is newer may
// not be complete. names are the states in the order of samples.
func Join(parts []Part, names [States]string, since, until int64) Tier {
	slots := make(map[int64]*slot)
	var bounds []float64
	for _, p := range parts {
		if bounds == nil {
			bounds = p.Bounds
		}
		members := 0
		for i := range p.Samples {
			s := &p.Samples[i]
			// A node counts from its second moment on: it may have joined just before the
			// first, and have no sample of that.
			expected := min(members, s.Members)
			if members = s.Members; s.At <= since || s.At > until {
				continue
			}
			one := slots[s.At]
			if one == nil {
				one = &slot{}
				slots[s.At] = one
			}
			one.add(s, expected, slices.Equal(p.Bounds, bounds))
		}
	}
	t := Tier{Step: Step, At: []int64{}, Incomplete: []int64{}, States: make(map[string][]int)}
	for _, at := range slices.Sorted(maps.Keys(slots)) {
		s := slots[at]
		if s.nodes < s.sum.Members {
			t.Incomplete = append(t.Incomplete, at)
			continue
		}
		t.At = append(t.At, at)
		t.Nodes, t.Clients = append(t.Nodes, s.nodes), append(t.Clients, s.sum.Clients)
		t.In, t.Out = append(t.In, s.sum.In), append(t.Out, s.sum.Out)
		for i, name := range names {
			t.States[name] = append(t.States[name], s.sum.States[i])
		}
		for i, column := range []*[]float64{&t.BytesIn, &t.BytesOut, &t.ResponsesIn, &t.ResponsesOut, &t.Nacks} {
			*column = append(*column, short(s.rates[i]))
		}
		t.P50, t.P99 = append(t.P50, Quantile(.5, bounds, s.took)), append(t.P99, Quantile(.99, bounds, s.took))
		answers := uint64(0)
		for _, n := range s.took {
			answers += n
		}
		t.Answers = append(t.Answers, answers)
	}
	return t
}

// short is a number in three digits or so, which is what a picture can show.
func short(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// Quantile estimates a quantile of a histogram: as if what is between two bounds was
// spread evenly. Beyond the last bound it is that bound. nil for an empty one.
func Quantile(q float64, bounds []float64, counts []uint64) *float64 {
	var all uint64
	for _, n := range counts {
		all += n
	}
	if all == 0 || len(bounds) == 0 {
		return nil
	}
	rank, low := q*float64(all), 0.0
	for i, n := range counts {
		if i >= len(bounds) {
			break
		}
		if n > 0 && rank <= float64(n) {
			v := short(low + (bounds[i]-low)*rank/float64(n))
			return &v
		}
		rank -= float64(n)
		low = bounds[i]
	}
	v := bounds[len(bounds)-1]
	return &v
}
