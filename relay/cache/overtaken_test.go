package cache

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestOwnerOvertakesOthers: K12: what the owner of a key has sent on its stream, a removal included, is
// newer than what another node holds that follows the same owner, also while the owner has not
// answered all that it was asked. For everything else the node that was confirmed last has the newest.
func TestOwnerOvertakesOthers(t *testing.T) {
	for kind, whole := range map[string]bool{"the complete set": true, "by name": false} {
		for name, tc := range map[string]struct {
			cut   time.Duration // since when the owner does not reach the control plane
			later time.Duration // after which the other node is asked
			age   time.Duration // of what that has
			want  []string
		}{
			"soon":                          {later: time.Second, want: []string{"a=2", "c=2", "d=2"}},
			"when others must have it":      {later: 10 * time.Second, want: []string{"a=1", "b=1", "d=2", "e=1"}},
			"the owner has it as of before": {cut: time.Minute, want: []string{"a=1", "b=1", "d=2", "e=1"}},
			"the owner has it as of after":  {cut: time.Millisecond, age: time.Second, want: []string{"a=2", "c=2", "d=2"}},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
					typ := endpoints
					if whole {
						typ = clusters
					}
					old := time.Now()
					pass(time.Hour)
					w.feed.Borrow(true)
					w.feed.Down(errOut)
					w.group.RestoreFrom(holds(typ, whole, old, res("a", "1"), res("b", "1"), res("d", "1"), res("e", "1")))
					if whole {
						w.client(typ, true)
					} else {
						w.client(typ, false, "a", "b", "c", "d", "e")
					}
					w.feed.TakeDemand(true, true)
					w.feed.Up()
					u := Update{Type: typ, Mirror: &Mirror{}, Kind: Partial, Resources: []*resource.Resource{res("a", "2"), res("c", "2")}, Removed: []string{"b", "e"}}
					if tc.cut > 0 {
						u.Mirror.AsOf = time.Now().Add(-tc.cut)
						w.feed.Down(errOut)
					}
					w.feed.Apply(u)
					pass(tc.later)
					theirs := holds(typ, whole, time.Now().Add(-tc.age), res("a", "1"), res("b", "1"), res("d", "2"), res("e", "1"))
					theirs.Absent = []string{"c"}
					w.group.Renew([]Snapshot{theirs})
					expectHeld(t, w, typ, tc.want...)
				})
			})
		}
	}
}

// expectHeld holds which resources a node has of a type, with their content.
func expectHeld(t *testing.T, w *world, typ *resource.Type, want ...string) {
	t.Helper()
	var got []string
	for _, e := range w.group.Table(typ).all() {
		if e.Res != nil {
			got = append(got, e.Name+"="+string(e.Res.Body))
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("holds %q, expected %q", got, want)
	}
}
