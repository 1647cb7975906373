package relay

import (
	"testing"

	"xdsrelay/shard"
)

// TestUnstamped: one node that does not say that it sets stamps is enough for heads to be
// read without them.
func TestUnstamped(t *testing.T) {
	stamped, earlier := shard.Member{Name: "a", Stamps: true}, shard.Member{Name: "b"}
	for _, one := range []struct {
		self      shard.Member
		unstamped bool
	}{{stamped, false}, {earlier, true}} {
		n := &Node{members: shard.NewSolo(one.self)}
		if got := n.unstamped(); got != one.unstamped {
			t.Errorf("node %s: %t", one.self.Name, got)
		}
	}
}
