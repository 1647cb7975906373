package relay

import (
	"testing"
	"time"

	"xdsrelay/shard"
)

// TestClockSet: a clock was set forward if those of other nodes have fallen behind by that much since
// they were last compared before. If they have not, the machine was suspended, and its clock is right
// again. What was not compared before proves nothing.
func TestClockSet(t *testing.T) {
	const by = 10 * time.Minute
	there := []shard.Member{{Name: "b"}, {Name: "c"}}
	type ahead = map[string]time.Duration
	for name, tc := range map[string]struct {
		before, between, after ahead
		set                    bool
	}{
		"set wrong":                    {before: ahead{"b": 0, "c": 0}, after: ahead{"b": -by, "c": -by}, set: true},
		"set right":                    {before: ahead{"b": by, "c": by}, after: ahead{"b": 0, "c": 0}, set: true},
		"one answers":                  {before: ahead{"b": 0, "c": 0}, after: ahead{"b": -by}, set: true},
		"suspended":                    {before: ahead{"b": 0, "c": 0}, after: ahead{"b": 0, "c": 0}},
		"suspended, and one is wrong":  {before: ahead{"b": -by, "c": 0}, after: ahead{"b": -by}},
		"one was set back meanwhile":   {before: ahead{"b": 0, "c": 0}, after: ahead{"b": -by, "c": 0}},
		"set by some of it":            {before: ahead{"b": 0}, after: ahead{"b": -by / 3}},
		"nobody answers":               {before: ahead{"b": 0, "c": 0}},
		"never compared":               {after: ahead{"b": -by}},
		"compared since":               {before: ahead{"b": 0}, between: ahead{"b": -by}, after: ahead{"b": -by}, set: true},
		"compared since only":          {between: ahead{"b": -by}, after: ahead{"b": -by}},
		"a node that had left":         {before: ahead{"d": 0}, after: ahead{"d": -by}},
		"one is new, and another knew": {before: ahead{"c": 0}, after: ahead{"b": 0, "c": -by}, set: true},
	} {
		var c clocks
		since := time.Now()
		if tc.before != nil {
			c.note("a", tc.before, there, since.Add(-time.Second))
		}
		if tc.between != nil {
			c.note("a", tc.between, there, since.Add(time.Second))
		}
		if set := c.set(by, since, tc.after); set != tc.set {
			t.Errorf("%s: %t", name, set)
		}
	}
}

// TestOffsetsBesideASilentNode: how far another clock is ahead is as exact as that node is fast, however
// long this node waits for a third one that does not answer.
func TestOffsetsBesideASilentNode(t *testing.T) {
	const ahead, waited = 10 * time.Minute, 3 * time.Second
	asked := time.Now()
	before := asked.Add(ahead)
	answer := func(node string, clock, after time.Duration) termsAnswer {
		one := termsAnswer{Node: node, Clock: asked.Add(clock).UnixMilli()}
		one.Arrived(asked.Add(after))
		return one
	}
	got := offsetsOf([]termsAnswer{
		answer("fast", ahead-waited, time.Millisecond), answer("slow", ahead+waited/2, waited), {Node: "old"},
		answer("right", ahead+time.Millisecond, 2*time.Millisecond),
	}, before, asked)
	if len(got) != 3 || (got["fast"]+waited).Abs() > 2*time.Millisecond || got["slow"] != 0 || got["right"] != 0 {
		t.Errorf("the clocks are ahead by %v", got)
	}
}
