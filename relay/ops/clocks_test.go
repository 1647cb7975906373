package ops

import (
	"slices"
	"testing"
	"time"
)

// TestSkews: the clock that differs is named, and by how much, whichever node asks.
func TestSkews(t *testing.T) {
	for _, test := range []struct {
		clocks map[string]time.Duration
		want   []Skew
	}{
		{map[string]time.Duration{"a": 0}, nil},
		{map[string]time.Duration{"a": 0, "b": time.Second, "c": -time.Second}, nil},
		{map[string]time.Duration{"a": 0, "b": time.Minute, "c": time.Second}, []Skew{{Node: "b", From: "c", Ahead: 59}}},
		{map[string]time.Duration{"a": 0, "b": -time.Hour, "c": time.Second}, []Skew{{Node: "b", From: "a", Ahead: -3600}}},
		{map[string]time.Duration{"a": 0, "b": time.Minute}, []Skew{{Node: "b", From: "a", Ahead: 60}}},
		{map[string]time.Duration{"a": 0, "b": time.Minute, "c": -time.Minute}, []Skew{{Node: "b", From: "a", Ahead: 60}, {Node: "c", From: "a", Ahead: -60}}},
	} {
		for asks := range test.clocks {
			offsets := make(map[string]time.Duration)
			for node, clock := range test.clocks {
				offsets[node] = clock - test.clocks[asks]
			}
			if got := Skews(offsets, 2*time.Second); !slices.Equal(got, test.want) {
				t.Errorf("%v, asked by %s: got %+v, want %+v", test.clocks, asks, got, test.want)
			}
		}
	}
}

// TestOffset: what the way of an answer can explain is no difference.
func TestOffset(t *testing.T) {
	before := time.Unix(1000, 0)
	after := before.Add(3 * time.Second)
	for said, want := range map[time.Duration]time.Duration{
		0: 0, time.Second: 0, 3 * time.Second: 0, 4 * time.Second: time.Second, -time.Minute: -time.Minute,
	} {
		if got := Offset(before.Add(said), before, after); got != want {
			t.Errorf("said %v after: got %v, want %v", said, got, want)
		}
	}
}
