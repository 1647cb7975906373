package rollouts

import "testing"

// TestRoles: a node decides only after it has become the owner and has read the record, and until it is not
// the owner any more, or another node has written under a later epoch.
func TestRoles(t *testing.T) {
	want := map[Role]map[roleEvent]Role{
		Deciding:  {owned: Deciding, left: Following, recordRead: Deciding, superseded: Claiming},
		Following: {owned: Claiming, left: Following, recordRead: Following, superseded: Following},
		Claiming:  {owned: Claiming, left: Following, recordRead: Deciding, superseded: Claiming},
	}
	for r := range roleCount {
		for e := range roleEvents {
			if is := roles[e][r]; is != want[r][e] {
				t.Errorf("%v, event %d: %v, expected %v", r, e, is, want[r][e])
			}
		}
	}
}
