package fleet

import (
	"fmt"
	"testing"
	"time"
)

// TestQuiet: a node is quiet since it last answered, until it does again; those that
// nobody asks any more are forgotten.
func TestQuiet(t *testing.T) {
	var q Quiet
	now := time.Unix(1000, 0)
	expect := func(what, node string, want time.Time) {
		t.Helper()
		if got := q.Since(node); !got.Equal(want) {
			t.Errorf("%s: quiet since %v, expected %v", what, got, want)
		}
	}
	expect("never asked", "a", time.Time{})
	q.Note("a", true, now)
	expect("it has answered", "a", time.Time{})
	q.Note("a", false, now.Add(time.Minute))
	q.Note("a", false, now.Add(2*time.Minute))
	expect("it does not any more", "a", now)
	q.Note("a", true, now.Add(3*time.Minute))
	expect("it does again", "a", time.Time{})
	q.Note("b", false, now)
	q.Note("b", false, now.Add(time.Minute))
	expect("it never did", "b", now)
	for i := range 100 {
		q.Note(fmt.Sprint(i), false, now.Add(time.Duration(i)*time.Minute))
	}
	if n := len(q.nodes); n > 15 {
		t.Errorf("%d nodes are remembered", n)
	}
}
