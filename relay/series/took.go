package series

import "slices"

// windows are the times, in seconds, over which the times to clients are summed up.
var windows = [...]int64{300, Kept * Step}

// Counts are the answers of the clients of one node by how long an update was on its way
// to them, over each of some windows that end now.
type Counts struct {
	Bounds []float64  `json:"bounds,omitempty"` // upper ones, in seconds
	Counts [][]uint64 `json:"counts,omitempty"` // of each window, the shortest first
}

// Counts adds up the samples up to a moment.
func (r *Ring) Counts(now int64) Counts {
	c := Counts{Bounds: r.last.Bounds, Counts: make([][]uint64, len(windows))}
	for _, s := range r.samples {
		for i, window := range windows {
			if s.At > now-window {
				c.Counts[i] = plus(c.Counts[i], s.Took)
			}
		}
	}
	return c
}

func plus[N uint32 | uint64](sum []uint64, counts []N) []uint64 {
	if len(sum) < len(counts) {
		sum = append(sum, make([]uint64, len(counts)-len(sum))...)
	}
	for i, n := range counts {
		sum[i] += uint64(n)
	}
	return sum
}

// Took is how long updates took from a node's storing them to the ACKs of its clients.
type Took struct {
	// Window is the time that it is about, up to now: the shortest with an answer, or else
	// the longest. Answers counts them.
	Window  int64  `json:"window_seconds"`
	Answers uint64 `json:"answers"`
	// P50 and P99 are in seconds; null where there was no answer.
	P50 *float64 `json:"p50_seconds"`
	P99 *float64 `json:"p99_seconds"`
}

// JoinTook adds up what nodes counted. Nodes of another version, with other bounds, do not
// count.
func JoinTook(nodes []Counts) (t Took) {
	for i, window := range windows {
		t = Took{Window: window}
		var bounds []float64
		var sum []uint64
		for _, n := range nodes {
			if i >= len(n.Counts) || len(n.Bounds) == 0 || bounds != nil && !slices.Equal(bounds, n.Bounds) {
				continue
			}
			bounds, sum = n.Bounds, plus(sum, n.Counts[i])
		}
		for _, n := range sum {
			t.Answers += n
		}
		if t.Answers > 0 {
			t.P50, t.P99 = Quantile(.5, bounds, sum), Quantile(.99, bounds, sum)
			break
		}
	}
	return t
}
