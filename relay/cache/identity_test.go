package cache

import (
	"context"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/resource"
)

// TestGroupsOfIdentities: the clients of one key and one identity share one group, which no other
// client finds and which ends with the last of them; it does not have what must not be shared at
// all (K6, K17).
func TestGroupsOfIdentities(t *testing.T) {
	feeds := make(chan *Feed, 10)
	ended := make(chan *Feed, 10)
	c, err := New(Config{
		Wake:   func([]*Subscription) {},
		Linger: time.Hour,
		Run: func(ctx context.Context, f *Feed) {
			feeds <- f
			<-ctx.Done()
			ended <- f
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	made := 0
	node := func() *corev3.Node { made++; return &corev3.Node{Id: "n"} }
	web, db := c.Join("web", &corev3.Node{}), c.Join("db", &corev3.Node{})
	<-feeds
	<-feeds
	one, two := c.JoinIdentity(web, "a", node), c.JoinIdentity(web, "a", node)
	other, another := c.JoinIdentity(web, "b", node), c.JoinIdentity(db, "a", node)
	if one != two || one == other || one == another || one == web || made != 3 || !one.Private() {
		t.Fatalf("%p %p %p %p of %p, %d made", one, two, other, another, web, made)
	}
	for range 3 {
		<-feeds
	}
	if n := len(c.Groups()); n != 2 {
		t.Fatalf("%d groups can be found", n)
	}
	secrets := one.Table(resource.TypeOf(resource.SecretURL))
	if secrets.Sole() || !c.JoinPrivate(web, &corev3.Node{}).Table(secrets.Type).Sole() {
		t.Fatal("whose a table is, is not known")
	}
	<-feeds
	var w Watcher
	secrets.Edit(&w, Edit{Add: []string{"x"}})
	feed := &Feed{}
	for g := range c.privates {
		if g == one {
			feed = g.streams[0].feed
		}
	}
	feed.Apply(Update{Type: secrets.Type, Resources: []*resource.Resource{resource.New(resource.Resource{Name: "x", Body: []byte("\n\x01t\x12\x01x"), DoNotCache: true})}})
	if h := secrets.State(&w); !h.Private {
		t.Fatalf("what must not be shared is in the table: %+v", h)
	}
	secrets.Leave(&w)
	if _, kept := secrets.Snapshot(); kept {
		t.Fatal("secrets of an identity are kept")
	}
	c.Leave(one)
	if c.JoinIdentity(web, "a", node) != two {
		t.Fatal("the group ended with the first of its clients")
	}
	c.Leave(two)
	c.Leave(two)
	<-ended // at once, whatever the linger time
	if again := c.JoinIdentity(web, "a", node); again == one || made != 4 {
		t.Fatal("the group lives on")
	}
}
