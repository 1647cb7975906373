package relay

import (
	"testing"

	"xdsrelay/shard"
)

// viewed are members of which only the view matters.
type viewed struct {
	shard.Members
	now *shard.Current
}

func (v viewed) View() *shard.View { return v.now.View() }

// TestSharded: one node that is not subscribed to sharded channels is enough for hints not to
// go by them.
func TestSharded(t *testing.T) {
	sharded := shard.Member{Name: "a", Status: shard.Status{Sharded: true}}
	for _, one := range []struct {
		members []shard.Member
		sharded bool
	}{
		{[]shard.Member{sharded}, true},
		{[]shard.Member{sharded, {Name: "b", Status: shard.Status{Sharded: true}}}, true},
		{[]shard.Member{sharded, {Name: "b"}}, false},
	} {
		n := &Node{members: viewed{now: shard.NewCurrent(one.members...)}}
		if got := n.sharded(); got != one.sharded {
			t.Errorf("members %v: %t", one.members, got)
		}
	}
}

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
