package fanout

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

const sds = resource.SecretURL

// own returns the feeds of so many private groups that have just begun, by the
// names of a type that they are asked for.
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

// secret is one whose content depends on v, and which may not be cached.
func secret(t xdstest.TB, name, v string) *resource.Resource {
	t.Helper()
	r := resources(t, xdstest.Secret(name, v, v))[0]
	return resource.New(resource.Resource{Name: name, Body: r.Body, DoNotCache: true})
}

func applyTo(f *cache.Feed, typeURL string, rs ...*resource.Resource) {
	f.Apply(cache.Update{Type: resource.TypeOf(typeURL), Resources: rs})
}

// TestUncachedResources: K17: who asks for a resource that must not be cached
// gets it over a stream of his own; other clients of the type stay where they
// are. Without an origin it is not offered.
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

// TestMovingKeepsWhatIsHeld: K17, B37: a delta client that has to move is told
// only what is different where it goes; a SotW client everything. Nothing reads
// as a removal meanwhile.
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

// TestPrivateTypes: K6: types that are meant for each client by itself come over
// a stream of its own from the start, which ends with the client's.
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
