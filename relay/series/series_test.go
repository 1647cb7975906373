package series

import (
	"encoding/json"
	"slices"
	"testing"
)

var bounds = []float64{1, 2, 4}

var names = [States]string{"nacked", "stale", "unknown", "not_sent", "synced"}

// TestRing holds that rates are those between two samples, that a ring keeps an hour,
// and that counters which begin anew give no negative rates.
func TestRing(t *testing.T) {
	var r Ring
	r.Add(moment(1003), 1, [States]int{}, Totals{BytesOut: 100, Took: []uint64{5, 0, 0, 0}, Bounds: bounds})
	r.Add(moment(1010.5), 2, [States]int{4: 2}, Totals{BytesOut: 850, StreamsOut: 3, Took: []uint64{5, 2, 0, 1}, Bounds: bounds})
	r.Add(moment(1011), 9, [States]int{}, Totals{}) // the same multiple of ten seconds
	r.Add(moment(1030), 2, [States]int{}, Totals{BytesOut: 10})
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
		r.Add(moment(float64(2000+i*Step)), i, [States]int{}, Totals{StreamsIn: int64(i)})
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
			r.Add(Moment{wall, steady}, i, [States]int{}, Totals{BytesOut: sent})
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
	a := Part{bounds, []Sample{
		{At: 10, Clients: 1, States: [States]int{1: 1}, In: 1, Out: 2, Rates: [5]float32{1, 10, 2, 20, 0}, Took: []uint32{99, 0, 0, 0}},
		{At: 20, Clients: 2},
	}}
	b := Part{bounds, []Sample{{At: 10, Clients: 3, Out: 4, Rates: [5]float32{0, 5}, Took: []uint32{99, 2, 0, 0}}, {At: 30}}}
	other := Part{[]float64{7}, []Sample{{At: 20, Took: []uint32{1, 1}}}}
	got := Join([]Part{a, b, other}, names, 20)
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
	text, err := json.Marshal(Join(nil, names, 20))
	if err != nil || string(text[:26]) != `{"step_seconds":10,"at":[]` {
		t.Errorf("nothing is %s, %v", text, err)
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
