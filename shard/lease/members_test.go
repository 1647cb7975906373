package lease_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/events"
	"xdsrelay/shard"
	"xdsrelay/shard/redistest"
)

// TestLifecycle: members discover each other, see changes that move keys without waiting for a
// renewal, and see at once that a member leaves; a member that dies is removed when its lease ends.
func TestLifecycle(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	a := join(t, server.URL(), shard.Member{Name: "a", Version: "v1"}, long, patience)
	b := join(t, server.URL(), shard.Member{Name: "b"}, long, patience)
	c := join(t, server.URL(), shard.Member{Name: "c"}, long, patience)
	for _, n := range []*node{a, b, c} {
		n.sees("a", "b", "c")
	}
	if m := c.member("a"); m.Peer != "a:1" || m.Version != "v1" || m.Incarnation != a.Self().Incarnation || !m.Since.Equal(a.Self().Since) {
		t.Errorf("c sees %+v", m)
	}
	a.Announce(shard.Status{Clients: 7, Cut: true})
	if m := a.member("a"); m.Clients != 7 || !m.Cut {
		t.Errorf("a sees itself as %+v", m)
	}
	eventually(t, "b to hear that a is cut off", func() bool { return b.member("a").Cut && b.member("a").Clients == 7 })
	a.Announce(shard.Status{Sharded: true, Cut: false})
	eventually(t, "b to hear that a has sharded channels", func() bool { return b.member("a").Sharded })
	a.Announce(shard.Status{})
	eventually(t, "b to hear at once that a has none any more", func() bool { return !b.member("a").Sharded })
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Announce(shard.Status{Clients: 3})
	eventually(t, "b to hear that a drains", func() bool { return b.member("a").Draining })
	if owner, ok := a.View().Owner("any"); !ok || owner.Name == "a" {
		t.Errorf("%q owns after it has left", owner.Name)
	}
	a.Close()
	b.sees("b", "c")
	c.sees("b", "c")
	if b.log.count("event="+string(events.NodeJoined)) == 0 || b.log.count("event="+string(events.NodeLeft)) != 1 {
		t.Errorf("the events of b:\n%s", b.log)
	}
	c.Close() // as if it had died
	if b.member("c").Name == "" {
		t.Error("c went before its lease expired")
	}
}

// TestDeath: a member that dies is removed from the views of others when its lease ends, and is
// back after it restarts.
func TestDeath(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	const term = 3 * time.Second
	a := join(t, server.URL(), shard.Member{Name: "a"}, term, patience)
	b := join(t, server.URL(), shard.Member{Name: "b"}, term, patience)
	a.sees("a", "b")
	b.Close()
	a.sees("a")
	eventually(t, "an event", func() bool { return a.log.count("event="+string(events.NodeDisappeared)) == 1 })
	join(t, server.URL(), shard.Member{Name: "b"}, term, patience)
	a.sees("a", "b")
}

// TestNameTwice: of two nodes with the same name the later started one has it on all nodes. The
// other one logs that once, and has the name again when the later one has left.
func TestNameTwice(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	began := time.Now()
	old := join(t, server.URL(), shard.Member{Name: "a", Peer: "old:1", Since: began}, long, patience)
	other := join(t, server.URL(), shard.Member{Name: "b"}, long, patience)
	other.sees("a", "b")
	young := join(t, server.URL(), shard.Member{Name: "a", Peer: "young:1", Since: began.Add(time.Second)}, long, patience)
	all := []*node{old, other, young}
	at := func(peer string) func() bool {
		return func() bool {
			for _, n := range all {
				if n.member("a").Peer != peer {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "the younger to have the name", at("young:1"))
	holds := func(peer string) bool {
		return slices.ContainsFunc(server.Do("HVALS", "test:{members}").([]any), func(text any) bool { return strings.Contains(text.(string), peer) })
	}
	for range 3 {
		server.Flush()
		heard := old.Heard()
		old.Announce(shard.Status{Cut: !old.Self().Cut})
		eventually(t, "the older one to be told who is there", func() bool { return old.Heard().After(heard) })
		if holds("old:1") {
			t.Error("the older one has taken the name back")
		}
		server.Flush()
		// Whichever is first to announce itself again.
		old.Announce(shard.Status{Cut: !old.Self().Cut})
		young.Announce(shard.Status{Cut: !young.Self().Cut})
		eventually(t, "the younger to have the name again", func() bool {
			return at("young:1")() && other.member("a").Cut == young.Self().Cut
		})
	}
	if n := old.log.count("another node has the same name"); n != 1 {
		t.Errorf("the older one said %d times that its name is taken, expected once:\n%s", n, old.log)
	}
	if n := old.log.count("event=" + string(events.NodeNameConflict)); n != 1 {
		t.Errorf("%d events, expected one:\n%s", n, old.log)
	}
	third := join(t, server.URL(), shard.Member{Name: "a", Peer: "third:1", Since: began.Add(-time.Second)}, long, patience)
	eventually(t, "a third one to see who has the name", func() bool { return third.member("a").Peer == "young:1" })
	if err := third.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	third.Close()
	if !holds("young:1") {
		t.Error("who has not the name has taken the one out that has it")
	}
	if err := young.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	young.Close()
	all = []*node{old, other}
	eventually(t, "the older to have the name", at("old:1"))
}

// TestNameTwiceAtOnce: two nodes with the same name that started at the same time agree on the one
// that has it.
func TestNameTwiceAtOnce(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	began := time.Now()
	first := join(t, server.URL(), shard.Member{Name: "a", Peer: "first:1", Since: began, Incarnation: "1"}, time.Second, patience)
	last := join(t, server.URL(), shard.Member{Name: "a", Peer: "last:1", Since: began, Incarnation: "2"}, time.Second, patience)
	eventually(t, "one to say that its name is taken", func() bool { return first.log.count("another node has the same name") == 1 })
	if n := last.log.count("another node has the same name"); n > 0 || last.member("a").Peer != "last:1" {
		t.Errorf("the other one has the name at %s, and said %d times that it is taken", last.member("a").Peer, n)
	}
}

// TestNewsThatFailed: a change that moves keys is announced as soon as Redis accepts it, also if
// Redis rejected it at first.
func TestNewsThatFailed(t *testing.T) {
	t.Parallel() // mostly waits
	server := redistest.Start(t, redistest.Config{})
	a := join(t, server.URL(), shard.Member{Name: "a"}, long, patience)
	b := join(t, server.URL(), shard.Member{Name: "b"}, long, patience)
	a.sees("a", "b")
	b.sees("a", "b")
	server.ReadOnly(true)
	a.Announce(shard.Status{Cut: true})
	eventually(t, "Redis to refuse it", func() bool { return a.store.State().Error != "" })
	server.ReadOnly(false)
	eventually(t, "b to hear that a is cut off", func() bool { return b.member("a").Cut })
}

// TestGarbage: garbage in the hash has no effect, and is removed.
func TestGarbage(t *testing.T) {
	t.Parallel() // mostly waits
	server := redistest.Start(t, redistest.Config{})
	name := "test:{members}"
	server.Do("HSET", name, "x", "", "y", "no record", "z", "99999999999999 2000 1 i {\"name\":\"z\"", "other", "99999999999999 2000 1 i {\"name\":\"z\",\"peer\":\"z:1\"}",
		"socket", "99999999999999 2000 1 i {\"name\":\"socket\",\"peer\":\"unix:///var/run/x\"}", "nowhere", "99999999999999 2000 1 i {\"name\":\"nowhere\",\"peer\":\"dns://1.2.3.4/a:1\"}",
		"far", "99999999999999 2000 1 i {\"name\":\"far\",\"peer\":\"far:1\"}", "ever", "99999999999999 99999999999999 1 i {\"name\":\"ever\",\"peer\":\"ever:1\"}", "gone", "1 2000 1 i {\"name\":\"gone\",\"peer\":\"gone:1\"}")
	const term = 2 * time.Second
	a := join(t, server.URL(), shard.Member{Name: "a"}, term, patience)
	a.sees("a", "ever", "far") // a lease far in the future is limited to the usual length
	a.sees("a", "ever")
	server.Do("HDEL", name, "ever")
	a.sees("a")
	eventually(t, "only a to be there", func() bool { return server.Do("HLEN", name) == int64(1) })
	server.Do("DEL", name)
	server.Do("SET", name, "a string")
	eventually(t, "a call to fail", func() bool { return a.store.State().Error != "" })
	a.sees("a")
	server.Do("DEL", name)
	eventually(t, "a to be there again", func() bool { return server.Do("HLEN", name) == int64(1) })
}

// TestLeaveWithoutRedis: leaving waits no longer than its context.
func TestLeaveWithoutRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	a := join(t, server.URL(), shard.Member{Name: "a"}, long, time.Second)
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.Leave(ctx); err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("left without Redis: %v", err)
	}
	if !a.member("a").Draining {
		t.Error("a does not drain")
	}
}

// TestRights: a user with rights for the prefix only, and without dangerous commands, has
// everything that members need.
func TestRights(t *testing.T) {
	server := redistest.Start(t, redistest.Config{Password: "admin"})
	server.Do("ACL", "SETUSER", "relay", "on", ">p", "~test:*", "&test:*", "+@all", "-@admin", "-@dangerous")
	url := "redis://relay:p@" + server.Addr()
	a := join(t, url, shard.Member{Name: "a"}, long, patience)
	b := join(t, url, shard.Member{Name: "b"}, long, patience)
	a.sees("a", "b")
	b.sees("a", "b")
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a to hear that b drains", func() bool { return a.member("b").Draining })
	b.Close()
	a.sees("a")
	for _, n := range []*node{a, b} {
		if c := n.log.count("refuses"); c > 0 {
			t.Errorf("Redis refused something:\n%s", n.log)
		}
	}
}
