package fanout

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/authz"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

const sds = resource.SecretURL

// own returns the feeds of the given number of new private groups, by the names of a type that they
// subscribe to.
func (w *world) own(typeURL string, n int) map[string]*cache.Feed {
	w.t.Helper()
	feeds := make(map[string]*cache.Feed)
	for range n {
		var f running
		select {
		case f = <-w.feeds:
		case <-time.After(xdstest.Patience):
			w.t.Fatalf("no client got an upstream stream of its own")
		}
		if f.Key() != "test-cluster" || f.Node().GetId() != "test-client" {
			w.t.Fatalf("a feed for %q, %v", f.Key(), f.Node())
		}
		xdstest.Eventually(w.t, "the stream to be asked", func() bool {
			for _, d := range f.TakeDemand(true, true) {
				if d.Table.Type.URL == typeURL {
					feeds[strings.Join(d.Names, " ")] = f.Feed
					return true
				}
			}
			return false
		})
	}
	return feeds
}

// secret returns a resource whose content depends on v and that may not be cached.
func secret(t xdstest.TB, name, v string) *resource.Resource {
	t.Helper()
	r := resources(t, xdstest.Secret(name, v, v))[0]
	return resource.New(resource.Resource{Name: name, Body: r.Body, DoNotCache: true})
}

func applyTo(f *cache.Feed, typeURL string, rs ...*resource.Resource) {
	f.Apply(cache.Update{Type: resource.TypeOf(typeURL), Resources: rs})
}

// TestUncachedResources: K17: a client that subscribes to a resource that must not be cached gets
// it over its own upstream stream; other clients of the type are unaffected. Without a control
// plane it is not offered.
func TestUncachedResources(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		one, two, other := w.open(delta), w.open(delta), w.open(delta)
		one.Subscribe(sds, "a", "b")
		two.Subscribe(sds, "a")
		other.Subscribe(sds, "b")
		w.asked(sds, "a", "b")
		b := resources(t, xdstest.Secret("b", "1", "1"))[0]
		applyTo(w.origin(), sds, secret(t, "a", "1"), b)
		other.Ack(has(t, other.Recv(t), "b"))
		own := w.own(sds, 2)
		one.Quiet(t, short)
		applyTo(own["a b"], sds, secret(t, "a", "for one"), b)
		applyTo(own["a"], sds, secret(t, "a", "for two"))
		f := has(t, one.Recv(t), "a", "b")
		g := has(t, two.Recv(t), "a")
		if proto.Equal(f.Resources[0].Body, g.Resources[0].Body) {
			t.Fatal("two clients got the same secret")
		}
		one.Ack(f)
		two.Ack(g)
		applyTo(own["a b"], sds, secret(t, "a", "again"))
		one.Ack(has(t, one.Recv(t), "a"))
		two.Quiet(t, short)
		other.Quiet(t, short)

		w.origin().Down(errors.New("gone"))
		late := w.open(delta)
		late.Subscribe(sds, "a", "b")
		late.Ack(has(t, late.Recv(t), "b")) // K14, and nothing about "a" (K13)
		late.Quiet(t, short)
		w.origin().Up()
		applyTo(w.origin(), sds, secret(t, "a", "2"), b)
		applyTo(w.own(sds, 1)["a b"], sds, secret(t, "a", "3"), b)
		if f := late.Recv(t); delta {
			has(t, f, "a")
		} else {
			has(t, f, "a", "b")
		}
	})
}

// TestMovingKeepsWhatIsHeld: K17, B37: a delta client that moves to its own table is sent only the
// differences; a SotW client is sent everything. Nothing reads as a removal meanwhile.
func TestMovingKeepsWhatIsHeld(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 1), cluster("b", 1), cluster("c", 1))
		s.Ack(has(t, s.Recv(t), "a", "b", "c"))
		private := resource.New(resource.Resource{Name: "c", Body: resources(t, cluster("c", 2))[0].Body, DoNotCache: true})
		w.origin().Apply(cache.Update{Type: resource.TypeOf(cds), Resources: []*resource.Resource{private}})
		own := w.own(cds, 1)[""]
		s.Quiet(t, short)
		own.Apply(cache.Update{Type: resource.TypeOf(cds), Full: true, Resources: append(resources(t, cluster("a", 1), cluster("d", 1)), private)})
		if f := s.Recv(t); delta {
			s.Ack(has(t, f, "c", "d"))
			s.Ack(hasRemoved(t, s.Recv(t), []string{"b"}))
		} else {
			s.Ack(has(t, f, "a", "c", "d"))
		}
		s.Quiet(t, short)
	})
}

// TestMovingWaitsForAllNames: K17, K13, B25: a SotW client that moves is sent nothing before all of
// its names have been answered: omitted ones would read as removed.
func TestMovingWaitsForAllNames(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(cds, "a", "b")
		w.asked(cds, "a", "b")
		w.change(cds, nil, cluster("a", 1), cluster("b", 1))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		private := resource.New(resource.Resource{Name: "b", Body: resources(t, cluster("b", 2))[0].Body, DoNotCache: true})
		applyTo(w.origin(), cds, private)
		own := w.own(cds, 1)["a b"]
		own.Apply(cache.Update{Type: resource.TypeOf(cds), Resources: resources(t, cluster("a", 1)), Kind: cache.Partial})
		s.Quiet(t, short)
		own.Apply(cache.Update{Type: resource.TypeOf(cds), Resources: []*resource.Resource{private}, Kind: cache.Partial})
		s.Ack(has(t, s.Recv(t), "a", "b"))
		s.Quiet(t, short)
		// From then on nothing waits for unanswered names (B25).
		s.Subscribe(cds, "z")
		s.Quiet(t, short)
		own.Apply(cache.Update{Type: resource.TypeOf(cds), Resources: resources(t, cluster("a", 2)), Kind: cache.Partial})
		s.Ack(has(t, s.Recv(t), "a", "b"))
		s.Quiet(t, short)
	})
}

// TestPrivateTypes: K6: private types come over a stream of the client's own from the start, which
// ends with the client's.
func TestPrivateTypes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Private = func(t *resource.Type) bool { return t.URL == sds } })
		s := w.open(true)
		s.Subscribe(cds)
		w.asked(cds, "*")
		s.Subscribe(sds, "a")
		own := w.own(sds, 1)["a"]
		applyTo(own, sds, resources(t, xdstest.Secret("a", "1", "1"))...)
		s.Ack(has(t, s.Recv(t), "a"))
		w.serve("", cds, cluster("x", 1))
		s.Ack(has(t, s.Recv(t), "x"))
		if !w.info(sds).Private || w.info(cds).Private {
			t.Fatal("the wrong type is private")
		}
		if d := w.origin().TakeDemand(true, true); len(d) != 1 {
			t.Fatalf("the shared stream asks for %d types", len(d))
		}
		s.CloseSend()
		xdstest.Eventually(t, "the private stream to end", func() bool { return own.Apply(cache.Update{Type: resource.TypeOf(sds), Removed: []string{"a"}}) == 0 })
	})
}

// identities returns the feeds of the given number of new private groups that subscribe to secrets,
// by the identity in their Nodes.
func (w *world) identities(n int) map[string]*cache.Feed {
	w.t.Helper()
	feeds := make(map[string]*cache.Feed)
	for len(feeds) < n {
		var f running
		select {
		case f = <-w.feeds:
		case <-time.After(xdstest.Patience):
			w.t.Fatalf("nobody got an upstream stream of their own")
		}
		identity := f.Node().GetMetadata().GetFields()["xdsrelay.identity"].GetStringValue()
		if identity == "" && w.feed == nil {
			w.feed = f.Feed // the key's
			continue
		}
		xdstest.Eventually(w.t, "the stream to be asked", func() bool { return len(f.TakeDemand(true, true)) > 0 })
		feeds[identity+" "+f.Node().GetId()] = f.Feed
	}
	return feeds
}

// TestSecretsOfIdentities: clients of one key get secrets over one upstream stream per identity,
// which all streams of that identity share, and never those of another identity (K6). A client
// without a proven identity gets those of the key. Resources that must not be shared are each
// stream's own (K17).
func TestSecretsOfIdentities(t *testing.T) {
	for _, delta := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			w := newGuarded(t, nil, nil)
			v := xdstest.Variant{Delta: delta}
			a := w.as("spiffe://corp/a")
			one, two, other, plain := a.Open(v), a.Open(v), w.as("spiffe://corp/b").Open(v), w.as("").Open(v)
			plain.Subscribe(sds, "s")
			w.asked(sds, "s")
			one.Subscribe(cds)
			w.asked(cds, "*") // by the key
			for _, s := range []*xdstest.Stream{one, two, other} {
				s.Subscribe(sds, "s")
			}
			own := w.identities(2)
			ofA, ofB := own["spiffe://corp/a xdsrelay/test-cluster~~spiffe://corp/a"], own["spiffe://corp/b xdsrelay/test-cluster~~spiffe://corp/b"]
			if ofA == nil || ofB == nil {
				t.Fatalf("the streams are for %v", own)
			}
			w.change(sds, nil, xdstest.Secret("s", "all", "all"))
			plain.Ack(has(t, plain.Recv(t), "s"))
			one.Quiet(t, time.Minute)
			applyTo(ofA, sds, resources(t, xdstest.Secret("s", "of a", "of a"))...)
			first := has(t, one.Recv(t), "s")
			one.Ack(first)
			same := has(t, two.Recv(t), "s")
			two.Ack(same)
			other.Quiet(t, time.Minute)
			applyTo(ofB, sds, resources(t, xdstest.Secret("s", "of b", "of b"))...)
			another := has(t, other.Recv(t), "s")
			other.Ack(another)
			if !proto.Equal(first.Resources[0].Body, same.Resources[0].Body) || proto.Equal(first.Resources[0].Body, another.Resources[0].Body) {
				t.Fatal("an identity has another's secret")
			}

			applyTo(ofA, sds, secret(t, "s", "for nobody else"))
			for range 2 { // both have the same Node: the client's, with the proven identity
				if sole := w.identities(1)["spiffe://corp/a test-client"]; sole == nil {
					t.Fatal("what must not be shared is asked for in another name")
				}
			}
			other.Quiet(t, time.Minute)
		})
	}
}

// TestSharedSecrets: a rule may share the secrets of a key among all its clients.
func TestSharedSecrets(t *testing.T) {
	virtual(t, func(t *testing.T) {
		rules, err := aggregation.Compile([]aggregation.Rule{{Key: "node.cluster", ShareSecrets: true}}, aggregation.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := newGuarded(t, nil, func(_ *authz.Config, c *Config) { c.Rules = func() *aggregation.Rules { return rules } })
		one, two := w.as("spiffe://corp/a").Open(xdstest.Delta), w.as("spiffe://corp/b").Open(xdstest.Delta)
		one.Subscribe(sds, "s")
		two.Subscribe(sds, "s")
		w.asked(sds, "s")
		w.change(sds, nil, xdstest.Secret("s", "all", "all"))
		one.Ack(has(t, one.Recv(t), "s"))
		two.Ack(has(t, two.Recv(t), "s"))
		select {
		case f := <-w.feeds:
			t.Fatalf("there is another upstream stream, for %v", f.Node())
		default:
		}
	})
}

// TestSecretsEndWithTheirClients: the stream of an identity ends at once with its last client.
func TestSecretsEndWithTheirClients(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newGuarded(t, nil, nil)
		a := w.as("spiffe://corp/a")
		one, two := a.Open(xdstest.Delta), a.Open(xdstest.Delta)
		one.Subscribe(sds, "s")
		two.Subscribe(sds, "s")
		feed := w.identities(1)["spiffe://corp/a xdsrelay/test-cluster~~spiffe://corp/a"]
		version := ""
		alive := func() bool {
			version += "x"
			return feed.Apply(cache.Update{Type: resource.TypeOf(sds), Resources: resources(t, xdstest.Secret("s", version, ""))}) > 0
		}
		alive()
		one.Ack(has(t, one.Recv(t), "s"))
		two.Ack(has(t, two.Recv(t), "s")) // both are connected
		one.CloseSend()
		one.End(time.Second)
		if !alive() {
			t.Fatal("it ended with the first")
		}
		two.CloseSend()
		two.End(time.Second)
		synctest.Wait() // until the node has noticed, too
		if alive() {
			t.Fatal("it lives on")
		}
	})
}
