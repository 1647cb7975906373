package ops

import (
	"fmt"
	"testing"
	"time"

	"xdsrelay/shard"
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
	q.Note("a", nil, now)
	expect("it has answered", "a", time.Time{})
	q.Note("a", errGone, now.Add(time.Minute))
	q.Note("a", errGone, now.Add(2*time.Minute))
	expect("it does not any more", "a", now)
	q.Note("a", nil, now.Add(3*time.Minute))
	expect("it does again", "a", time.Time{})
	if all := q.Among([]shard.Member{{Name: "a"}, {Name: "b"}}); len(all) > 0 {
		t.Errorf("silent are %+v", all)
	}
	q.Note("b", errGone, now)
	q.Note("b", errGone, now.Add(time.Minute))
	expect("it never did", "b", now)
	if all := q.Among([]shard.Member{{Name: "a"}, {Name: "b", Status: shard.Status{Clients: 3}}}); len(all) != 1 || all[0] != (Silent{Node: "b", Error: errGone.Error(), Since: now, Clients: 3}) {
		t.Errorf("silent are %+v", all)
	}
	for i := range 100 {
		q.Note(fmt.Sprint(i), errGone, now.Add(time.Duration(i)*time.Minute))
	}
	if n := len(q.nodes); n > 15 {
		t.Errorf("%d nodes are remembered", n)
	}
}
