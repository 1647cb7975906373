package cache

import (
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/resource"
)

func uncached(name, content string, aliases ...string) *resource.Resource {
	return resource.New(resource.Resource{Name: name, Body: []byte(content), Aliases: aliases, DoNotCache: true})
}

// TestUncachedIsNotKept: K17: a resource that must not be cached is not in the shared table, in any
// form, and clients that ask for it must move: now, or when they arrive later.
func TestUncachedIsNotKept(t *testing.T) {
	w := start(t, Config{})
	all := w.client(clusters, true)
	byName := w.client(clusters, false, "a", "b")
	byAlias := w.client(clusters, false, "alias")
	other := w.client(clusters, false, "b")
	w.feed.TakeDemand(true, true)
	w.apply(clusters, res("b", "1"), res("a", "shared"))
	for _, c := range []*client{all, byName} {
		c.ask(t, Query{})
	}
	w.nap()
	w.apply(clusters, uncached("a", "secret", "alias"))
	for what, c := range map[string]*client{"the wildcard": all, "the name": byName, "an alias": byAlias} {
		if !c.head().Private || !w.woke()[c.w.sub] {
			t.Errorf("%s: private %t, woken %t", what, c.head().Private, w.woke()[c.w.sub])
		}
	}
	if other.head().Private {
		t.Error("who does not ask for it has to move")
	}
	for _, late := range []*client{w.client(clusters, true, "x"), w.client(clusters, false, "a"), w.client(clusters, false, "alias", "b")} {
		if !late.head().Private {
			t.Errorf("a late client stays: %v", late.w.sub.names)
		}
		if got := late.ask(t, Query{}); slices.ContainsFunc(got.Resources, func(r *resource.Resource) bool { return r.Name == "a" }) {
			t.Errorf("a late client gets %v", said(got))
		}
	}
	for _, what := range []struct {
		say  func()
		want bool
	}{
		{func() { w.apply(clusters, uncached("a", "secret", "alias")) }, true},
		{func() { w.apply(clusters, res("a", "public")) }, false},
		{func() { w.apply(clusters, uncached("a", "secret")) }, true},
		{func() { w.remove(clusters, "a") }, false},
	} {
		what.say()
		c := w.client(clusters, false, "a", "new")
		if got := c.head().Private; got != what.want {
			t.Errorf("private: %t, expected %t", got, what.want)
		}
		c.table.Leave(&c.w)
	}
}

// TestPrivateGroup: K6, K17: a private group has its own stream, no other client finds it, and it
// keeps everything as long as its client is connected, and nothing after.
func TestPrivateGroup(t *testing.T) {
	w := start(t, Config{})
	g := w.cache.JoinPrivate(w.group, &corev3.Node{Id: "me"})
	feed := <-w.feeds
	if feed.Key() != "key" || feed.Node().GetId() != "me" {
		t.Fatalf("the feed is of %q, %v", feed.Key(), feed.Node())
	}
	if again := w.cache.Join("key", nil); again != w.group {
		t.Fatal("somebody else found the private group")
	}
	w.cache.Leave(w.group)
	c := &client{table: g.Table(clusters), at: Start}
	c.table.Replace(&c.w, false, []string{"a", "b"})
	feed.TakeDemand(true, true)
	feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{uncached("a", "1"), uncached("b", "1")}})
	if got := c.ask(t, Query{}); c.head().Private || !slices.Equal(said(got), []string{"a", "b"}) {
		t.Fatalf("private %t: %v", c.head().Private, said(got))
	}
	if s := w.cache.GroupInfos(); len(s) != 1 || s[0].Private != 1 {
		t.Fatalf("%+v", s)
	}
	c.table.Replace(&c.w, false, []string{"a"})
	for deadline := time.After(10 * time.Second); ; {
		d := feed.TakeDemand(false, true)
		if len(d) == 1 && slices.Equal(d[0].Unsubscribe, []string{"b"}) {
			break
		}
		select {
		case <-feed.News():
		case <-deadline:
			t.Fatal("what nobody wants stays subscribed")
		}
	}
	c.table.Leave(&c.w)
	w.cache.Leave(g)
	if feed.ctx.Err() == nil {
		t.Fatal("the stream outlives the client")
	}
	if s := w.cache.GroupInfos(); s[0].Private != 0 {
		t.Fatalf("%+v", s)
	}
}

// TestHeldAt: what a client of a shared table has when it moves away.
func TestHeldAt(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, false, "a", "b", "c", "d")
	if got := c.table.HeldAt(&c.w, c.at); got != nil {
		t.Fatalf("a client that was told nothing holds %v", got)
	}
	w.apply(clusters, versioned("a", "1", "a1"), versioned("b", "1", "b1"), versioned("c", "1", "c1"))
	c.ask(t, Query{})
	w.apply(clusters, versioned("b", "2", "b2"), versioned("d", "1", "d1"))
	w.remove(clusters, "c")
	got := make(map[string]string)
	for _, h := range c.table.HeldAt(&c.w, c.at) {
		got[h.Name] = h.Version
	}
	if len(got) != 4 || got["a"] != "a1" || got["b"] != "" || got["c"] != "" || got["d"] != "" {
		t.Fatalf("%v", got)
	}
}
