package fanout

import (
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// urn is a structured name of an endpoint set.
func urn(id string, params ...string) string { return xdstest.URN("o", eds, id, params...) }

// TestSpellingsOfNames: G1: names that mean the same are one subscription. The relay subscribes at
// the origin with the client's spelling, and responds to clients with the origin's spelling; B29:
// one frame names no resource twice, in any spelling.
func TestSpellingsOfNames(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		ba, ab := urn("x", "b=2", "a=1"), urn("x", "a=1", "b=2")
		s := w.open(delta)
		s.Subscribe(eds, ba, ab)
		w.asked(eds, ba)
		w.change(eds, nil, endpoints(ab, 1))
		s.Ack(has(t, s.Recv(t), ab))
		w.change(eds, nil, endpoints(ba, 2))
		s.Ack(has(t, s.Recv(t), ba))
		if !delta {
			return
		}
		s.Subscribe(eds, ab) // B35
		s.Ack(has(t, s.Recv(t), ba))
		w.change(eds, []string{ab})
		hasRemoved(t, s.Recv(t), []string{ba})
		again := w.open(true)
		again.Resume(eds, "", map[string]string{urn("%78", "a=1", "b=2"): "old"}, ab) // B37
		hasRemoved(t, again.Recv(t), []string{ba})
	})
}

// TestGlob: G4, G6, G7: a glob gets what is one level below it, with its
// parameters; what goes, goes under its own name, and an empty glob under the
// glob's.
func TestGlob(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(eds, urn("a/*"), urn("a/*", "s=1"))
		w.asked(eds, urn("a/*"), urn("a/*", "s=1"))
		w.change(eds, []string{urn("a/*", "s=1")}, endpoints(urn("a/x"), 1), endpoints(urn("a/b/x"), 1), endpoints(urn("a"), 1))
		s.Ack(hasRemoved(t, s.Recv(t), []string{urn("a/*", "s=1")}, urn("a/x")))
		w.change(eds, nil, endpoints(urn("a/y"), 1), endpoints(urn("a/y", "s=1"), 1))
		s.Ack(has(t, s.Recv(t), urn("a/y"), urn("a/y", "s=1")))
		w.change(eds, []string{urn("a/x")})
		s.Ack(hasRemoved(t, s.Recv(t), []string{urn("a/x")}))
		w.change(eds, []string{urn("a/y")})
		s.Ack(hasRemoved(t, s.Recv(t), []string{urn("a/*"), urn("a/y")}))
		w.change(eds, nil, endpoints(urn("a/y"), 2)) // B26
		s.Ack(has(t, s.Recv(t), urn("a/y")))
		s.Unsubscribe(eds, urn("a/*"))
		s.Quiet(t, short)
		w.change(eds, nil, endpoints(urn("a/y"), 3))
		s.Quiet(t, short)
	})
}

// TestNamesBesideAGlob: who wants a resource by its name and by a glob has it
// until both are gone, and is sent it again when he drops the name, since he may
// have dropped the resource with it.
func TestNamesBesideAGlob(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(eds, urn("a/*"), urn("a/x"), "plain")
		w.asked(eds, urn("a/*"), urn("a/x"), "plain")
		w.change(eds, nil, endpoints(urn("a/x"), 1), endpoints("plain", 1))
		s.Ack(has(t, s.Recv(t), "plain", urn("a/x")))
		s.Unsubscribe(eds, urn("a/x"), "plain")
		s.Ack(has(t, s.Recv(t), urn("a/x")))
		s.Quiet(t, short)
		s.Subscribe(eds, urn("a/x"))
		s.Ack(has(t, s.Recv(t), urn("a/x"))) // B18
		s.Unsubscribe(eds, urn("a/*"))
		s.Quiet(t, short) // B36 is about wildcards
		w.change(eds, nil, endpoints(urn("a/x"), 2))
		has(t, s.Recv(t), urn("a/x"))
	})
}

// TestGlobsOnReconnect: B37, K13: a client that reconnects with members of a glob is notified which
// of them changed and which are gone, once the origin has answered for the glob.
func TestGlobsOnReconnect(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Resume(eds, "", map[string]string{urn("a/same"): version(t, endpoints(urn("a/same"), 1)), urn("a/old"): "1", urn("a/gone"): "1"}, urn("a/*"))
		w.asked(eds, urn("a/*"))
		w.origin().Apply(cache.Update{Type: resource.TypeOf(eds), Resources: resources(t, endpoints("other", 1))})
		s.Quiet(t, short)
		w.change(eds, nil, endpoints(urn("a/same"), 1), endpoints(urn("a/old"), 1), endpoints(urn("a/new"), 1))
		s.Ack(has(t, s.Recv(t), urn("a/new"), urn("a/old"))) // E5
		hasRemoved(t, s.Recv(t), []string{urn("a/gone")})
	})
}

// TestGlobJoinedAfterReconnect: B37, E5: a resource that a client holds and did not subscribe to
// counts as gone, and its removal waits for the routes. If the client subscribes to a glob that
// covers it meanwhile, it is notified once the glob has been answered for (K13).
func TestGlobJoinedAfterReconnect(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Resume(eds, "", map[string]string{"y": version(t, endpoints("y", 1)), urn("a/gone"): "1"}, "y")
		s.Subscribe(rds, "r")
		w.asked(eds, "y")
		w.asked(rds, "r")
		w.change(eds, nil, endpoints("y", 1))
		s.Quiet(t, short)
		s.Subscribe(eds, urn("a/*"))
		w.asked(eds, "y", urn("a/*"))
		s.Quiet(t, short)
		w.change(rds, nil, route("r", "y"))
		s.Ack(has(t, s.Recv(t), "r"))
		s.Quiet(t, short) // nobody knows
		w.change(eds, nil, endpoints(urn("a/new"), 1))
		f := s.Recv(t)
		s.Ack(hasRemoved(t, f, []string{urn("a/gone")}, urn("a/new")))
		s.Quiet(t, short)
	})
}

// TestGlobsOnSotW: D8, B3: a SotW client that asks for a glob gets nothing of it,
// nobody is asked, and it is no wildcard either.
func TestGlobsOnSotW(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		glob := xdstest.URN("o", cds, "a/*")
		s.Subscribe(cds, glob)
		s.Subscribe(eds, "x")
		w.asked(eds, "x")
		w.asked(cds)
		s.QuietType(t, cds, short)
		s.Subscribe(cds, glob, "c")
		w.asked(cds, "c")
		w.change(cds, nil, cluster("c", 1), cluster(xdstest.URN("o", cds, "a/x"), 1))
		has(t, s.RecvType(t, cds), "c")
	})
}

// TestPlainNameLikeAGlob: G6: the name of a virtual host is a name, also where
// it ends like a glob.
func TestPlainNameLikeAGlob(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		vhds := resource.VirtualHostURL
		s.Subscribe(vhds, "rc/*")
		w.asked(vhds, "rc/*")
		w.named(vhds, "rc/a", xdstest.VirtualHost("a", "c"))
		s.Quiet(t, short)
		w.named(vhds, "rc/*", xdstest.VirtualHost("any", "c"))
		has(t, s.Recv(t), "rc/*")
	})
}

// TestNamesOfNobody: G2, G5: names that cannot be those of the type do not exist,
// and no origin is asked.
func TestNamesOfNobody(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		wrong := []string{urn("x"), xdstest.URN("o", cds, "x#entry=y"), xdstest.URN("o", cds, "%")}
		s.Subscribe(cds, append(wrong, "c")...)
		if delta {
			s.Ack(hasRemoved(t, s.Recv(t), []string{wrong[2], wrong[1], wrong[0]}))
		}
		w.asked(cds, "c")
		w.change(cds, nil, cluster("c", 1))
		has(t, s.Recv(t), "c")
	})
}

// TestRedirect: G8, E3, D8: a redirect reaches delta clients unchanged, names no endpoints, and
// SotW clients get nothing instead of it.
func TestRedirect(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		const name = "x"
		redirect := &xdscorev3.ResourceLocator{Authority: "p", ResourceType: "envoy.config.cluster.v3.Cluster", Id: "y"}
		s.Subscribe(eds, name)
		s.Subscribe(cds, name, "c")
		w.asked(cds, name, "c")
		w.change(eds, nil, endpoints(name, 1))
		s.Ack(s.RecvType(t, eds))
		r, err := resource.DecodeDelta(marshal(t, &discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: cds, Resources: []*discoveryv3.Resource{{Name: name, Version: "1", Resource: xdstest.Any(redirect)}},
		}))
		if err != nil || len(r.Invalid) > 0 {
			t.Fatalf("%v, %v", err, r.Invalid)
		}
		w.origin().Apply(cache.Update{Type: r.Type, Resources: append(r.Resources, resources(t, cluster("c", 1))...)})
		f := s.RecvType(t, cds)
		if !delta {
			s.Ack(has(t, f, "c"))
		} else {
			s.Ack(has(t, f, "c", name))
			if got := f.Resources[0].Body; string(got.GetValue()) != string(marshal(t, redirect)) || got.GetTypeUrl() != xdstest.TypeOf(redirect) {
				t.Errorf("the redirect is %v, expected %v", got, redirect)
			}
		}
		s.QuietType(t, eds, short) // E3
	})
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
