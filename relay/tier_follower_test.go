package relay_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// following are two nodes, of which one follows the other in key "red".
type following struct {
	*tierWorld

	owner, follower string
}

func newFollowing(t *testing.T, variant config.Variant) *following {
	t.Helper()
	w := &following{tierWorld: newTierWorld(t, 2, variant, "red")}
	w.owner = w.roster.owner("red")
	w.follower = w.names[1-slices.Index(w.names, w.owner)]
	return w
}

// stream is a scripted client of key "red" on a node, that takes lifetimes.
func (r *tierRig) stream(node string, v xdstest.Variant) *xdstest.Stream {
	r.t.Helper()
	conn := r.network.Client(r.t, r.nodes[node].Addr())
	conn.Node = xdstest.Node("client", "red")
	conn.Node.ClientFeatures = []string{"xds.config.supports-resource-ttl", "xds.config.resource-in-sotw"}
	return conn.Open(v)
}

// TestFollowerUnshared: a follower hears that a resource must not be shared, and not
// what it is: each of its clients that asks for it gets it over a stream of its own to
// the origin, also once it must not be shared any more that was shared before (K17).
func TestFollowerUnshared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, config.Delta)
		w.origin.Update("red", func(c *xdstest.Change) {
			c.SetEnvelope(xdstest.ClusterType, unshared(xdstest.Cluster("x", time.Second)))
		})
		plain := w.client(w.follower, "1", "red", xdstest.Delta)
		plain.Subscribe(xdstest.ClusterType, "red-a", "red-b")
		plain.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
		w.streams(1)
		for i, id := range []string{"2", "3"} {
			c := w.client(w.follower, id, "red", xdstest.Delta)
			c.Subscribe(xdstest.ClusterType, "x", "red-a")
			c.WaitHeld(t, xdstest.ClusterType, "x", "red-a")
			w.streams(2 + i)
		}
		w.origin.Update("red", func(c *xdstest.Change) {
			c.SetEnvelope(xdstest.ClusterType, unshared(xdstest.Cluster("red-b", 2*time.Second)))
		})
		w.streams(4)
		w.clients["red"] = []*xdstest.Auto{plain}
		w.converged()
		w.check()
	})
}

func unshared(m proto.Message) *discoveryv3.Resource {
	return &discoveryv3.Resource{
		Name: xdstest.NameOf(m), Resource: xdstest.Any(m),
		CacheControl: &discoveryv3.Resource_CacheControl{DoNotCache: true},
	}
}

// TestFollowerLifetimes: a client of a follower is told what is left of a lifetime, and
// one that takes none that the resource has gone at its end, whatever has become of the
// origin and the owner (F3, F5, C14).
func TestFollowerLifetimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, config.Delta)
		w.origin.Update("red", func(c *xdstest.Change) {
			c.SetEnvelope(xdstest.ClusterType, &discoveryv3.Resource{
				Name: "x", Resource: xdstest.Any(xdstest.Cluster("x", time.Second)), Ttl: durationpb.New(30 * time.Second),
			})
		})
		old := w.client(w.follower, "1", "red", xdstest.Delta)
		old.Subscribe(xdstest.ClusterType, "x")
		old.WaitHeld(t, xdstest.ClusterType, "x")
		time.Sleep(20 * time.Second) //nolint:forbidigo // virtual time
		s := w.stream(w.follower, xdstest.Delta)
		s.Subscribe(xdstest.ClusterType, "x")
		f := s.Recv(t)
		if r, ok := f.Get("x"); !ok || r.TTL <= 8*time.Second || r.TTL > 10*time.Second {
			t.Errorf("after 20 of 30 s it was told %v, lifetime %s", f, r.TTL)
		}
		s.Ack(f)
		w.origin.Stop()
		w.kill(w.owner)
		time.Sleep(5 * time.Second) //nolint:forbidigo // the end comes well within the time that is waited for it
		old.WaitHeld(t, xdstest.ClusterType)
	})
}

// scriptedTier is a tier over an origin that does what the test says.
func scriptedTier(t *testing.T) (w *following, o *xdstest.Origin) {
	t.Helper()
	network := xdstest.NewMemory()
	o = network.NewOrigin(t)
	w = &following{tierWorld: &tierWorld{}}
	w.tierRig = newTierRig(t, network, 2, func(cfg *config.Config) {
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{o.Addr()}, config.Delta
	})
	w.owner = w.roster.owner("red")
	w.follower = w.names[1-slices.Index(w.names, w.owner)]
	return w, o
}

// TestFollowerErrors: what the origin says of a name in place of a resource reaches
// the clients of followers, those of later too; and what it does not know is absent
// there at once (K8, B34, C16).
func TestFollowerErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := scriptedTier(t)
		s := w.stream(w.follower, xdstest.Delta)
		s.Subscribe(xdstest.ClusterType, "x", "y", "z")
		up := o.NextStream(t)
		if r := up.NextRequest(t); !slices.Equal(r.Subscribe, []string{"x", "y", "z"}) {
			t.Fatalf("the origin was asked %v", r)
		}
		err := up.Send(&discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: xdstest.ClusterType, Nonce: "1", RemovedResources: []string{"y"},
			Resources:      []*discoveryv3.Resource{{Name: "z", Version: "7", Resource: xdstest.Any(xdstest.Cluster("z", time.Second))}},
			ResourceErrors: []*discoveryv3.ResourceError{{ResourceName: &discoveryv3.ResourceName{Name: "x"}, ErrorDetail: &statuspb.Status{Code: 8, Message: "too many"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var removed []string
			var errors, held int
			for errors == 0 || len(removed) == 0 || held == 0 {
				f := s.Recv(t)
				removed = append(removed, f.Removed...)
				errors, held = errors+len(f.Errors), held+len(f.Resources)
				for _, e := range f.Errors {
					if e.GetErrorDetail().GetMessage() != "too many" {
						t.Errorf("error %v", e)
					}
				}
				for _, r := range f.Resources {
					if r.Version != "7" {
						t.Errorf("version %q (D14)", r.Version)
					}
				}
				s.Ack(f)
			}
			if !slices.Equal(removed, []string{"y"}) || errors != 1 || held != 1 {
				t.Errorf("removed %v, %d errors, %d resources", removed, errors, held)
			}
			s = w.stream(w.follower, xdstest.Delta)
			s.Subscribe(xdstest.ClusterType, "x", "y", "z")
		}
	})
}

// TestFollowerWaits: a follower does not take what the owner has not heard of yet for
// absent, however long that takes, and hears at once when it comes (K13, C12).
func TestFollowerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := scriptedTier(t)
		s := w.stream(w.follower, xdstest.SotW)
		s.Subscribe(xdstest.ClusterType)
		up := o.NextStream(t)
		up.NextRequest(t)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		if n := len(o.Streams()); n != 1 {
			t.Errorf("%d streams to the origin", n)
		}
		d := w.stream(w.follower, xdstest.Delta)
		d.Subscribe(xdstest.ClusterType, "c")
		d.Quiet(t, 10*time.Second)
		up.Respond(t, xdstest.ClusterType, "", xdstest.Cluster("c", time.Second))
		for _, f := range []*xdstest.Frame{s.Recv(t), d.Recv(t)} {
			if !slices.Equal(f.Names(), []string{"c"}) {
				t.Errorf("it was told %v", f)
			}
		}
	})
}

// TestFollowerWithoutOrigin: with the origin down, a client of a follower whose stream
// had no answer is sent away in time, and one that had is told an error for what
// nobody knows; what is known is served on (K15, K14).
func TestFollowerWithoutOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, config.Delta)
		known := w.stream(w.follower, xdstest.Delta)
		known.Subscribe(xdstest.ClusterType)
		known.Ack(known.Recv(t))
		w.origin.Stop()
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time

		late := w.stream(w.follower, xdstest.SotW)
		late.Subscribe(xdstest.ClusterType)
		late.Ack(late.Recv(t))

		at := time.Now()
		known.Subscribe(xdstest.RouteType, "red-r")
		s := w.stream(w.follower, xdstest.Delta)
		s.Subscribe(xdstest.RouteType, "other")
		if end := s.ExpectClosed(t); end.Code() != codes.Unavailable || time.Since(at) > 12*time.Second {
			t.Errorf("after %s it ended %v", time.Since(at), end)
		}
		f := known.RecvType(t, xdstest.RouteType)
		if len(f.Errors) != 1 || f.Errors[0].GetErrorDetail().GetCode() != int32(codes.Unavailable) || time.Since(at) > 13*time.Second {
			t.Errorf("after %s it was told %v", time.Since(at), f)
		}
		known.Ack(f)
		if err := w.origin.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time; as long as the pause before the next attempt may be by now
		if f := known.RecvType(t, xdstest.RouteType); !slices.Equal(f.Names(), []string{"red-r"}) {
			t.Errorf("it was told %v", f)
		}
		w.settle()
		w.streams(1)
		w.check()
	})
}
