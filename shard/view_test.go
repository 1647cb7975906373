package shard_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/shard"
)

// TestOwner: a key has one owner, whatever the order in which members are listed. The owner changes
// only when it leaves or when a new member owns the key, and never between two members that stay.
func TestOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}`), 2, 6, rapid.ID[string]).Draw(t, "names")
		var all []shard.Member
		for _, n := range names {
			all = append(all, shard.Member{Name: n})
		}
		key := rapid.String().Draw(t, "key")
		owner, ok := shard.NewView(all).Owner(key)
		if !ok {
			t.Fatal("no owner")
		}
		if again, _ := shard.NewView(rapid.Permutation(all).Draw(t, "order")).Owner(key); again.Name != owner.Name {
			t.Fatalf("the order decides: %q or %q", owner.Name, again.Name)
		}
		i := rapid.IntRange(0, len(all)-1).Draw(t, "leaves")
		rest := append(append([]shard.Member(nil), all[:i]...), all[i+1:]...)
		if next, _ := shard.NewView(rest).Owner(key); all[i].Name != owner.Name && next.Name != owner.Name {
			t.Fatalf("%q left, and the key went from %q to %q", all[i].Name, owner.Name, next.Name)
		}
	})
}

// TestOwnerLeft: a node that drains owns nothing. A node that cannot reach the control plane owns
// only keys that no node that can reach it could own. In such an outage, a node that has not
// reached it since it started owns only keys that no node that has could own (K14).
func TestOwnerLeft(t *testing.T) {
	is := func(name string, s shard.Status) shard.Member { return shard.Member{Name: name, Status: s} }
	cut, draining, cold, nothing := shard.Status{Cut: true}, shard.Status{Draining: true}, shard.Status{Cold: true}, shard.Status{Cold: true, Cut: true}
	for i, tc := range []struct {
		members []shard.Member
		want    string
	}{
		{nil, ""},
		{[]shard.Member{is("a", draining)}, ""},
		{[]shard.Member{is("a", cut)}, "a"},
		{[]shard.Member{is("a", cut), is("b", shard.Status{})}, "b"},
		{[]shard.Member{is("a", shard.Status{}), is("b", cut)}, "a"},
		{[]shard.Member{is("a", draining), is("b", cut)}, "b"},
		{[]shard.Member{is("a", cold)}, "a"},
		{[]shard.Member{is("a", cold), is("b", cut)}, "b"},
		{[]shard.Member{is("a", nothing), is("b", cut)}, "b"},
		{[]shard.Member{is("a", draining), is("b", nothing)}, "b"},
		{[]shard.Member{is("a", cold), is("b", cut), is("c", shard.Status{})}, "c"},
		{[]shard.Member{is("a", shard.Status{Cold: true, Draining: true}), is("b", nothing)}, "b"},
	} {
		for _, key := range []string{"", "x", "shop", "a longer one"} {
			if owner, ok := shard.NewView(tc.members).Owner(key); owner.Name != tc.want || ok != (tc.want != "") {
				t.Errorf("case %d: %q owns %q, expected %q", i, owner.Name, key, tc.want)
			}
		}
	}
}

// TestColdCountsInAnOutageOnly: a node that has just started owns its keys while every node can
// reach the control plane; if all nodes are cold, it makes no difference.
func TestColdCountsInAnOutageOnly(t *testing.T) {
	warm := shard.NewView([]shard.Member{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	for what, s := range map[string]shard.Status{"nobody is cut off": {Cold: true}, "all are": {Cold: true, Cut: true}} {
		started := []shard.Member{{Name: "a", Status: s}, {Name: "b"}, {Name: "c"}}
		if s.Cut {
			started[1].Status, started[2].Status = s, s
		}
		for i := range 100 {
			key := fmt.Sprint(i)
			want, _ := warm.Owner(key)
			if got, _ := shard.NewView(started).Owner(key); got.Name != want.Name {
				t.Errorf("%s: %q owns %q, expected %q", what, got.Name, key, want.Name)
			}
		}
	}
}

// TestNameTwice: of two nodes with the same name the later started one counts.
func TestNameTwice(t *testing.T) {
	now := time.Now()
	v := shard.NewView([]shard.Member{{Name: "a", Peer: "old", Since: now}, {Name: "a", Peer: "new", Since: now.Add(1)}})
	if m := v.Members(); len(m) != 1 || m[0].Peer != "new" {
		t.Errorf("members %v", m)
	}
	for _, order := range [][]string{{"1", "2"}, {"2", "1"}} {
		v := shard.NewView([]shard.Member{{Name: "a", Incarnation: order[0], Since: now}, {Name: "a", Incarnation: order[1], Since: now}})
		if m := v.Members(); len(m) != 1 || m[0].Incarnation != "2" {
			t.Errorf("of two that started at once: %v", m)
		}
	}
}

// TestSpread: keys are spread over members, also if names and keys differ by a digit only.
func TestSpread(t *testing.T) {
	const members, keys = 5, 10_000
	var all []shard.Member
	for i := range members {
		all = append(all, shard.Member{Name: fmt.Sprintf("node-%d", i)})
	}
	v, owned := shard.NewView(all), map[string]int{}
	for i := range keys {
		m, _ := v.Owner(fmt.Sprintf("key-%d", i))
		owned[m.Name]++
	}
	for _, m := range all {
		if n := owned[m.Name]; n < keys/members*9/10 || n > keys/members*11/10 {
			t.Errorf("%s owns %d of %d keys", m.Name, n, keys)
		}
	}
}
