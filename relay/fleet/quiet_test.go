package fleet

import (
	"fmt"
	"testing"
	"time"
)

// TestQuiet: a node is quiet since it first did not answer, until it does; those that
// nobody asks any more are forgotten.
func TestQuiet(t *testing.T) {
	var q Quiet
	now := time.Unix(1000, 0)
	q.Note("a", true, now)
	if !q.Since("a").IsZero() {
		t.Error("it has answered")
	}
	q.Note("a", false, now)
	q.Note("a", false, now.Add(time.Minute))
	if got := q.Since("a"); !got.Equal(now) {
		t.Errorf("quiet since %v", got)
	}
	q.Note("a", true, now)
	if !q.Since("a").IsZero() {
		t.Error("it has answered again")
	}
	for i := range 100 {
		q.Note(fmt.Sprint(i), false, now.Add(time.Duration(i)*time.Minute))
	}
	if n := len(q.nodes); n > 12 {
		t.Errorf("%d nodes are remembered", n)
	}
}
