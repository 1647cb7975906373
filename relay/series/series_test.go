package series

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

var bounds = []float64{1, 2, 4}

var names = [States]string{"nacked", "stale", "unknown", "not_sent", "synced"}

// TestRing holds that rates are those between two samples, that a ring keeps an hour,
// and that counters which begin anew give no negative rates.
func TestRing(t *testing.T) {
	var r Ring
	r.Add(moment(1003), Now{Clients: 1}, Totals{BytesOut: 100, Took: []uint64{5, 0, 0, 0}, Bounds: bounds})
	r.Add(moment(1010.5), Now{Clients: 2, States: [States]int{4: 2}}, Totals{BytesOut: 850, StreamsOut: 3, Took: []uint64{5, 2, 0, 1}, Bounds: bounds})
	r.Add(moment(1011), Now{Clients: 9}, Totals{}) // the same multiple of ten seconds
	r.Add(moment(1030), Now{Clients: 2}, Totals{BytesOut: 10})
	got := r.After(0)
	if len(got) != 3 || got[0].At != 1000 || got[1].At != 1010 || got[2].At != 1030 {
		t.Fatalf("samples %+v", got)
	}
	if s := got[1]; s.Rates[1] != 100 || s.Clients != 2 || s.Out != 3 || s.States[4] != 2 || !slices.Equal(s.Took, []uint32{0, 2, 0, 1}) {
		t.Errorf("the second sample is %+v", s)
	}
	if s := got[0]; s.Rates[1] != 0 || s.Took != nil {
		t.Errorf("the first sample has nothing to compare with: %+v", s)
	}
	if s := got[2]; s.Rates[1] != 0 {
		t.Errorf("rate %v after counters began anew", s.Rates[1])
	}
	if after := r.After(1010); len(after) != 1 || after[0].At != 1030 {
		t.Errorf("after 1010: %+v", after)
	}
	for i := range 2 * Kept {
		r.Add(moment(float64(2000+i*Step)), Now{Clients: i}, Totals{StreamsIn: int64(i)})
	}
	got = r.After(0)
	if len(got) != Kept || got[0].Clients != Kept || got[Kept-1].Clients != 2*Kept-1 {
		t.Errorf("%d samples, of %d to %d", len(got), got[0].Clients, got[len(got)-1].Clients)
	}
	if r.Totals().StreamsIn != 2*Kept-1 {
		t.Errorf("totals %+v", r.Totals())
	}
}

// moment is one of which the clocks differ by what they always do.
func moment(wall float64) Moment { return Moment{wall, wall - 900} }

// TestClockSetBack holds that samples go on when the clock of the wall is set, that those
// from before stay as long ago as they were, and that rates are per second as it passes.
func TestClockSetBack(t *testing.T) {
	for _, by := range []float64{-3600, -34, -31, -5, -2, 2, 34, 3600} {
		var r Ring
		wall, steady, sent := 10_001.0, 1.0, int64(0)
		for i := range 12 {
			r.Add(Moment{wall, steady}, Now{Clients: i}, Totals{BytesOut: sent})
			wall, steady, sent = wall+Step, steady+Step, sent+100*Step
			if i == 5 {
				wall += by
			}
		}
		all := r.After(0)
		if len(all) < 11 {
			t.Errorf("set by %v s, %d samples are there of 12: %+v", by, len(all), all)
			continue
		}
		for i, s := range all {
			if s.At%Step != 0 || i > 0 && s.At <= all[i-1].At {
				t.Errorf("set by %v s, the times are %+v", by, all)
				break
			}
			if i > 0 && s.Rates[1] != 100 {
				t.Errorf("set by %v s, sample %d has the rate %v", by, i, s.Rates[1])
			}
		}
		if newest := all[len(all)-1].At; by < 0 && all[0].At < newest-13*Step {
			t.Errorf("set by %v s, the first sample is at %d and the last at %d", by, all[0].At, newest)
		}
	}
}

// TestJoin holds that samples of several nodes add up time by time, that times come
// from all of their answers, and that what may not be complete waits.
func TestJoin(t *testing.T) {
	a := Part{"a", bounds, []Sample{
		{At: 10, Now: Now{Clients: 1, States: [States]int{1: 1}}, In: 1, Out: 2, Rates: [5]float32{1, 10, 2, 20, 0}, Took: []uint32{99, 0, 0, 0}},
		{At: 20, Now: Now{Clients: 2}},
	}}
	b := Part{"b", bounds, []Sample{{At: 10, Now: Now{Clients: 3}, Out: 4, Rates: [5]float32{0, 5}, Took: []uint32{99, 2, 0, 0}}, {At: 30}}}
	other := Part{"c", []float64{7}, []Sample{{At: 20, Took: []uint32{1, 1}}}}
	got := Join([]Part{a, b, other}, names, 0, 20)
	if !slices.Equal(got.At, []int64{10, 20}) || !slices.Equal(got.Clients, []int{4, 2}) || !slices.Equal(got.Nodes, []int{2, 2}) {
		t.Errorf("joined %+v", got)
	}
	if got.States["stale"][0] != 1 || got.BytesOut[0] != 15 || got.ResponsesIn[0] != 2 || got.Out[0] != 6 {
		t.Errorf("joined %+v", got)
	}
	if p50, p99 := got.P50[0], got.P99[0]; p50 == nil || *p50 != .505 || p99 == nil || *p99 != 1 {
		t.Errorf("p50 %v, p99 %v", got.P50[0], got.P99[0])
	}
	if got.P50[1] != nil {
		t.Errorf("p50 %v of no answers", *got.P50[1])
	}
	text, err := json.Marshal(Join(nil, names, 0, 20))
	if err != nil || string(text[:26]) != `{"step_seconds":10,"at":[]` {
		t.Errorf("nothing is %s, %v", text, err)
	}
}

// TestTook: the times to clients are those of all nodes over the last five minutes, or the
// last hour if these had none, and say of how many answers.
func TestTook(t *testing.T) {
	var a, b Ring
	counted := func(r *Ring, at float64, took ...uint64) {
		r.Add(moment(at), Now{}, Totals{Took: took, Bounds: bounds})
	}
	counted(&a, 1000, 0, 0, 0, 0)
	counted(&a, 1010, 99, 0, 0, 0)
	counted(&b, 2000, 0, 0, 0, 0)
	for _, tc := range []struct {
		now, window int64
		answers     uint64
		p50         float64
	}{{1010, 300, 99, .5}, {2000, 3600, 99, .5}, {9000, 3600, 0, 0}} {
		got := JoinTook([]Counts{a.Counts(tc.now), b.Counts(tc.now), {}})
		if got.Window != tc.window || got.Answers != tc.answers || (got.P50 == nil) != (tc.answers == 0) || got.P50 != nil && *got.P50 != tc.p50 {
			t.Errorf("at %d: %+v", tc.now, got)
		}
	}
	counted(&b, 2010, 1, 0, 0, 3)
	if got := JoinTook([]Counts{a.Counts(2010), b.Counts(2010)}); got.Window != 300 || got.Answers != 4 || *got.P99 != 4 {
		t.Errorf("after a newer answer: %+v", got)
	}
}

// TestJoinWithoutANode: a moment at which the tier had a node without a sample is marked
// and left out: no sum shrinks since a node has left. A node that has just joined is not
// waited for.
func TestJoinWithoutANode(t *testing.T) {
	sample := func(at int64, members int) Sample { return Sample{At: at, Now: Now{Clients: 5, Members: members}} }
	a := Part{Node: "a", Samples: []Sample{sample(10, 2), sample(20, 2), sample(30, 2), sample(40, 1), sample(50, 1), sample(60, 2), sample(70, 2), sample(80, 2)}}
	b := Part{Node: "b", Samples: []Sample{sample(10, 2), sample(20, 2)}}
	c := Part{Node: "c", Samples: []Sample{sample(70, 2), sample(80, 2)}}
	for _, tc := range []struct {
		parts      []Part
		since      int64
		at         []int64
		incomplete []int64
		clients    []int
	}{
		{[]Part{a, b, c}, 0, []int64{10, 20, 40, 50, 60, 70, 80}, []int64{30}, []int{10, 10, 5, 5, 5, 10, 10}},
		{[]Part{a, c}, 0, []int64{10, 40, 50, 60, 70, 80}, []int64{20, 30}, []int{5, 5, 5, 5, 10, 10}},
		{[]Part{a, b}, 70, []int64{}, []int64{80}, nil},
	} {
		got := Join(tc.parts, names, tc.since, 80)
		if !slices.Equal(got.At, tc.at) || !slices.Equal(got.Incomplete, tc.incomplete) || !slices.Equal(got.Clients, tc.clients) {
			t.Errorf("after %d: at %v, incomplete %v, clients %v; expected %v, %v, %v", tc.since, got.At, got.Incomplete, got.Clients, tc.at, tc.incomplete, tc.clients)
		}
	}
}

// TestCopies: samples of a node outlive it for an hour, come in any parts, and are
// bounded.
func TestCopies(t *testing.T) {
	part := func(node string, from, to int64) Part {
		p := Part{Node: node}
		for at := from; at <= to; at += Step {
			p.Samples = append(p.Samples, Sample{At: at})
		}
		return p
	}
	var c Copies
	c.Add(part("a", 10, 100), part("b", 10, 200))
	c.Add(part("a", 50, 150), Part{Node: "none"})
	if got := c.Since([]string{"a", "b"}); got != 150 {
		t.Errorf("samples are missing from %d", got)
	}
	if got := c.Since([]string{"a", "new"}); got != 0 {
		t.Errorf("with a new node samples are missing from %d", got)
	}
	all := c.All(Part{Node: "b"})
	if len(all) != 1 || all[0].Node != "a" || !slices.EqualFunc(all[0].Samples, part("a", 10, 150).Samples, func(x, y Sample) bool { return x.At == y.At }) {
		t.Errorf("copied %+v", all)
	}
	c.Add(part("b", 210, 150+Kept*Step))
	if all := c.All(); len(all) != 1 || len(all[0].Samples) != Kept {
		t.Errorf("after an hour %d nodes are known", len(all))
	}
	for i := range 2 * mostCopies {
		c.Add(part(fmt.Sprint(i), 5000, 5000))
	}
	if n := len(c.All()); n != mostCopies {
		t.Errorf("%d nodes are known", n)
	}
}

// TestQuantile holds the estimate within a bucket, and beyond the last one.
func TestQuantile(t *testing.T) {
	for _, tc := range []struct {
		q      float64
		counts []uint64
		want   float64
	}{
		{.5, []uint64{2, 0, 0, 0}, .5}, {.5, []uint64{0, 0, 4, 0}, 3}, {.99, []uint64{0, 0, 0, 5}, 4}, {0, []uint64{0, 1, 0, 0}, 1},
	} {
		if got := Quantile(tc.q, bounds, tc.counts); got == nil || *got != tc.want {
			t.Errorf("quantile %v of %v: %v, want %v", tc.q, tc.counts, got, tc.want)
		}
	}
	if got := Quantile(.5, bounds, []uint64{0, 0, 0, 0}); got != nil {
		t.Errorf("of nothing: %v", *got)
	}
}
