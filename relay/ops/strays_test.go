package ops

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"xdsrelay/shard"
)

var errGone = errors.New("connection refused")

// TestStrays: who was a member and did not say that it ends is asked, seldom where it
// does not answer, and not for ever; that it does not is told meanwhile; and few are
// remembered.
func TestStrays(t *testing.T) {
	var s Strays
	now := time.Unix(1000, 0)
	a, b, c := shard.Member{Name: "a"}, shard.Member{Name: "b"}, shard.Member{Name: "c", Status: shard.Status{Draining: true}}
	leavers := map[string]bool{}
	left := func(m shard.Member) bool { return leavers[m.Name] }
	due := func(members ...shard.Member) (names []string) {
		t.Helper()
		for _, m := range s.Look(members, left, now) {
			names = append(names, m.Name)
		}
		return names
	}
	expect := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, expected %q", what, got, want)
		}
	}
	expect("all are members", due(a, b, c))
	expect("b went, and c said so", due(a), "b")
	if alive := s.Alive(); len(alive) > 0 {
		t.Errorf("nothing was heard of %+v", alive)
	}
	s.Note("a", errGone, now) // a member
	s.Note("b", nil, now)
	if alive := s.Alive(); len(alive) != 1 || alive[0].Name != "b" {
		t.Errorf("%+v", alive)
	}
	s.Note("b", errGone, now)
	if alive := s.Alive(); len(alive) > 0 {
		t.Errorf("%+v", alive)
	}
	if gone := s.Gone(); len(gone) != 1 || gone[0].Name != "b" || gone[0].Error != errGone.Error() || !gone[0].Heard.Equal(now) || gone[0].Listed {
		t.Errorf("gone are %+v", gone)
	}
	expect("it has just not answered", due(a))
	now = now.Add(strayPause)
	expect("a while later", due(a), "b")
	expect("it is a member again", due(a, b))
	if gone := s.Gone(); len(gone) > 0 {
		t.Errorf("gone are %+v", gone)
	}
	expect("it went again", due(a), "b")
	now = now.Add(strayTime + time.Second)
	s.Note("b", errGone, now)
	now = now.Add(time.Hour)
	expect("it is given up", due(a))
	d, e := shard.Member{Name: "d"}, shard.Member{Name: "e"}
	due(a, d, e)
	leavers["d"] = true
	expect("d left between two looks", due(a), "e")
	leavers["e"] = true
	expect("that e left is known later", due(a))
	if gone := s.Gone(); len(gone) > 0 {
		t.Errorf("gone are %+v", gone)
	}
	for i := range 3 * mostStrays {
		due(a, shard.Member{Name: fmt.Sprint(i)})
	}
	if n := len(due(a)); n != mostStrays {
		t.Errorf("%d are remembered, expected %d", n, mostStrays)
	}
}
