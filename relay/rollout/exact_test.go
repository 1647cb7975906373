package rollout

import (
	"math"
	"testing"
)

// TestFisher holds p values that were computed with fractions of integers, and those of Fisher's
// tea tasting (The Design of Experiments, 1935).
func TestFisher(t *testing.T) {
	for _, tc := range []struct {
		a, n, b, m int
		want       float64
	}{
		{3, 4, 1, 4, 17.0 / 70}, // the tea
		{4, 4, 0, 4, 1.0 / 70},
		{7, 100, 0, 100, 0.007008882758187659},
		{6, 100, 0, 100, 0.014465141011578784},
		{10, 12, 2, 13, 0.0010201334538392016},
		{8, 10, 1, 9, 0.004492411613154647},
		{2, 10, 0, 10, 0.23684210526315788},
		{5, 5, 0, 5, 0.003968253968253968},
		{50, 5000, 20, 5000, 0.0002103574442264451},
		{12, 1000, 1, 1000, 0.0016617458943965699},
		{30, 100000, 5, 50000, 0.009884550394638422},
		{0, 10, 3, 10, 1}, {3, 7, 0, 0, 1}, {0, 0, 0, 0, 1}, {5, 4, 0, 4, 1}, {-1, 4, 0, 4, 1},
	} {
		if got := Fisher(tc.a, tc.n, tc.b, tc.m); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%d of %d against %d of %d: p = %v, expected %v", tc.a, tc.n, tc.b, tc.m, got, tc.want)
		}
	}
}

const z95 = 1.959963984540054

// TestWilson holds the intervals of table I in R. G. Newcombe, Two-sided confidence intervals for the
// single proportion, Statistics in Medicine 17 (1998): method 3.
func TestWilson(t *testing.T) {
	for _, tc := range []struct {
		x, n      uint64
		low, high float64
	}{{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}, {0, 0, 0, 1}} {
		if low, high := Wilson(tc.x, tc.n, z95); math.Abs(low-tc.low) > 6e-5 || math.Abs(high-tc.high) > 6e-5 {
			t.Errorf("%d of %d: %.4f to %.4f, expected %v to %v", tc.x, tc.n, low, high, tc.low, tc.high)
		}
	}
}

// TestNewcombe holds the intervals of table II in R. G. Newcombe, Interval estimation for the
// difference between independent proportions, Statistics in Medicine 17 (1998): method 10.
func TestNewcombe(t *testing.T) {
	for _, tc := range []struct {
		x, n, y, m uint64
		low, high  float64
	}{
		{56, 70, 48, 80, 0.0524, 0.3339},
		{9, 10, 3, 10, 0.1705, 0.8090},
		{6, 7, 2, 7, 0.0582, 0.8062},
		{5, 56, 0, 29, -0.0381, 0.1926},
		{0, 10, 0, 20, -0.1611, 0.2775},
		{0, 10, 0, 10, -0.2775, 0.2775},
		{10, 10, 0, 20, 0.6791, 1},
		{10, 10, 0, 10, 0.6075, 1},
		{0, 0, 3, 10, -1, 1},
	} {
		if low, high := Newcombe(tc.x, tc.n, tc.y, tc.m, z95); math.Abs(low-tc.low) > 6e-5 || math.Abs(high-tc.high) > 6e-5 {
			t.Errorf("%d of %d less %d of %d: %.4f to %.4f, expected %v to %v", tc.x, tc.n, tc.y, tc.m, low, high, tc.low, tc.high)
		}
	}
}
