package cache

import (
	"strconv"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// TestEqualResourcesOfKeysAreOne: keys use the same memory for what they have in common, each with its
// own version. A private group shares nothing, and nobody shares secrets.
func TestEqualResourcesOfKeysAreOne(t *testing.T) {
	w := start(t, Config{})
	secrets := resource.TypeOf(resource.SecretURL)
	group := func(g *Group, feed *Feed, version string) func(typ *resource.Type) *resource.Resource {
		for _, typ := range []*resource.Type{clusters, secrets} {
			c := &client{table: g.Table(typ)}
			c.table.Replace(&c.w, true, []string{"a"})
		}
		feed.TakeDemand(true, true)
		for _, typ := range []*resource.Type{clusters, secrets} {
			feed.Apply(Update{Type: typ, Resources: []*resource.Resource{versioned("a", "content", version)}})
		}
		return func(typ *resource.Type) *resource.Resource {
			table := g.Table(typ)
			table.mu.RLock()
			defer table.mu.RUnlock()
			return table.core.store.Get("a").Res
		}
	}
	join := func(key string) (*Group, *Feed) {
		g := w.cache.Join(aggregation.Key(key), &corev3.Node{Id: "node"})
		return g, <-w.feeds
	}
	joinPrivate := func() (*Group, *Feed) {
		g := w.cache.JoinPrivate(w.group, &corev3.Node{Id: "me"})
		return g, <-w.feeds
	}
	g, f := join("second")
	second := group(g, f, "1")
	g, f = join("third")
	third := group(g, f, "1")
	g, f = join("fourth")
	fourth := group(g, f, "2")
	g, f = joinPrivate()
	private := group(g, f, "1")

	if second(clusters) != third(clusters) {
		t.Error("equal resources of two keys are there twice")
	}
	if got := fourth(clusters); got.Version != "2" || &got.Body[0] != &second(clusters).Body[0] {
		t.Errorf("the key with another version has version %q, or bytes of its own", got.Version)
	}
	if &private(clusters).Body[0] == &second(clusters).Body[0] {
		t.Error("a private group shares")
	}
	if &second(secrets).Body[0] == &third(secrets).Body[0] {
		t.Error("secrets are shared")
	}
}

// TestASingleKeySharesNothing: a process with one key has no pool to pay for.
func TestASingleKeySharesNothing(t *testing.T) {
	w := start(t, Config{})
	w.client(clusters, true)
	w.feed.TakeDemand(true, true)
	for i := range 3 {
		w.apply(clusters, res("a"+strconv.Itoa(i), "content"))
	}
	if n := w.cache.pool.Len(); n != 0 {
		t.Errorf("the pool knows %d resources", n)
	}
}
