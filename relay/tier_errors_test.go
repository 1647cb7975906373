package relay_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"xdsrelay/relay/config"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// fallible is a tier with a client that holds the clusters x and z and remembers an error of
// x.
type fallible struct {
	*following

	t        *testing.T
	origin   *xdstest.Origin
	answered map[*xdstest.OriginStream]int // how many requests were
	versions map[string]string             // that the client holds
}

// newFallible makes a client on the owner of its key receive x and z, and an error of x.
// With lastGood nodes keep a last known good state. follows are clusters that a client of the
// other node asks for from the beginning.
func newFallible(t *testing.T, lastGood string, follows ...string) *fallible {
	t.Helper()
	f := &fallible{t: t, answered: make(map[*xdstest.OriginStream]int), versions: make(map[string]string)}
	f.following, f.origin = scriptedTier(t)
	if lastGood != "" {
		f.restart(f.names, func(c *config.Config) {
			c.LastKnownGood.Store, c.LastKnownGood.Directory, c.LastKnownGood.WriteDelay = config.StoreDirectory, filepath.Join(lastGood, c.Node.Name), 100*time.Millisecond
		})
	}
	if len(follows) > 0 {
		f.follow(follows...)
	}
	s := f.stream(f.owner, xdstest.Delta)
	s.Subscribe(xdstest.ClusterType, "x", "z")
	for _, r := range f.all(s).Resources {
		f.versions[r.Name] = r.Version
	}
	f.fail("x")
	if got := f.all(s); len(f.versions) != 2 || len(got.Errors) != 1 || len(got.Resources) > 0 {
		t.Fatalf("with %v it was sent %v, expected an error", f.versions, got)
	}
	s.Cancel()
	f.settle(time.Second)
	return f
}

// follow makes a client of the node that does not own the key ask for clusters.
func (f *fallible) follow(names ...string) *xdstest.Stream {
	f.t.Helper()
	s := f.stream(f.follower, xdstest.Delta)
	s.Subscribe(xdstest.ClusterType, names...)
	if got := f.all(s); len(got.Resources) != len(names) {
		f.t.Fatalf("it was sent %v, expected %q", got, names)
	}
	return s
}

// restart kills nodes and starts them again.
func (f *fallible) restart(names []string, change func(*config.Config)) {
	f.t.Helper()
	for _, name := range names {
		f.kill(name)
		change(f.configs[name])
	}
	for _, name := range names {
		f.start(name)
	}
}

func unchanged(*config.Config) {}

// settle lets time pass in which the origin sends what it is asked for, whatever it sent
// before.
func (f *fallible) settle(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) { //nolint:forbidigo // virtual time
		synctest.Wait()
		for _, up := range f.origin.Streams() {
			for _, r := range up.Requests()[f.answered[up]:] {
				f.answered[up]++
				f.send(up, responseOf(r.Subscribe...))
			}
		}
	}
}

func (*fallible) send(up *xdstest.OriginStream, r *discoveryv3.DeltaDiscoveryResponse) {
	if len(r.Resources)+len(r.ResourceErrors) == 0 {
		return
	}
	r.TypeUrl, r.Nonce = xdstest.ClusterType, "n"
	_ = up.Send(r) // the stream may have ended
}

// responseOf is a response with clusters, which are always the same.
func responseOf(names ...string) *discoveryv3.DeltaDiscoveryResponse {
	r := &discoveryv3.DeltaDiscoveryResponse{}
	for _, n := range names {
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: n, Version: "1", Resource: xdstest.Any(xdstest.Cluster(n, time.Second))})
	}
	return r
}

// takeBack makes the origin send x as it was.
func (f *fallible) takeBack() {
	for _, up := range f.origin.Streams() {
		f.send(up, responseOf("x"))
	}
	f.settle(5 * time.Second)
}

// fail makes the origin send an error that leaves copies in place.
func (f *fallible) fail(name string) {
	for _, up := range f.origin.Streams() {
		f.send(up, &discoveryv3.DeltaDiscoveryResponse{ResourceErrors: []*discoveryv3.ResourceError{
			{ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: &statuspb.Status{Code: 14, Message: "for now"}},
		}})
	}
}

// all is everything that a client is sent within some time, as one.
func (f *fallible) all(s *xdstest.Stream) (all xdstest.Frame) {
	for range 30 {
		f.settle(500 * time.Millisecond)
		for {
			frame, err := s.Next(time.Millisecond, func(*xdstest.Frame) bool { return true })
			if err != nil {
				break
			}
			s.Ack(frame)
			all.Resources, all.Errors, all.Removed = append(all.Resources, frame.Resources...), append(all.Errors, frame.Errors...), append(all.Removed, frame.Removed...)
		}
	}
	return all
}

// returns makes the client connect to a node with what it holds: the node has to send x,
// once, and nothing else. What SotW clients hold is not known: they are sent all of it.
func (f *fallible) returns(node string) {
	f.t.Helper()
	s, full := f.stream(node, xdstest.Delta), f.stream(node, xdstest.SotW)
	s.Resume(xdstest.ClusterType, "", f.versions, slices.Sorted(maps.Keys(f.versions))...)
	full.Subscribe(xdstest.ClusterType, "x", "z")
	got := f.all(s)
	if !slices.Equal(got.Names(), []string{"x"}) || len(got.Errors)+len(got.Removed) > 0 {
		f.t.Errorf("%s: the client was sent %v, expected x alone\n%s", node, &got, s.Transcript())
	}
	if got := f.all(full); !slices.Contains(got.Names(), "x") || !slices.Contains(got.Names(), "z") || len(got.Errors) > 0 {
		f.t.Errorf("%s: the SotW client was sent %v, expected x and z", node, &got)
	}
	s.Cancel()
	full.Cancel()
	f.settle(time.Second)
}

// TestErrorTakenBackElsewhere: a delta client that was sent an error by one node and connects
// to another with what it holds is sent the resource again, which alone takes the error back:
// whether that node followed the key before the error, followed it without the resource, or
// follows it since (C16, D15).
func TestErrorTakenBackElsewhere(t *testing.T) {
	for what, c := range map[string]struct{ before, since []string }{
		"followed before": {before: []string{"x", "z"}}, "follows later": {},
		"followed for another name": {before: []string{"z"}}, "follows for another name": {before: []string{"z"}, since: []string{"y"}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFallible(t, "", c.before...)
				f.takeBack()
				if len(c.since) > 0 {
					f.follow(c.since...)
				}
				f.returns(f.follower)
				f.returns(f.owner)
				f.check()
			})
		})
	}
}

// TestErrorTakenBackAfterRestart: the same of nodes that restart meanwhile: an owner without
// a last known good state learns it from a node that follows it, also where the client was
// there before; nodes with that state know it by themselves (C16, D15, K14).
func TestErrorTakenBackAfterRestart(t *testing.T) {
	for what, c := range map[string]struct {
		lastGood bool
		run      func(f *fallible)
	}{
		"owner, of what its follower was sent": {run: func(f *fallible) {
			f.follow("x", "z")
			f.takeBack()
			f.restart([]string{f.owner}, unchanged)
			f.settle(10 * time.Second)
		}},
		"owner, of what its follower learned": {run: func(f *fallible) {
			f.takeBack()
			f.follow("x", "z")
			f.restart([]string{f.owner}, unchanged)
			f.settle(10 * time.Second)
		}},
		"owner, before its follower is back": {run: func(f *fallible) {
			f.takeBack()
			f.follow("x", "z")
			f.restart([]string{f.owner}, unchanged)
		}},
		"owner, which then has another follower": {run: func(f *fallible) {
			f.follow("x", "z")
			f.takeBack()
			f.restart([]string{f.owner}, unchanged)
			f.settle(10 * time.Second)
			f.restart([]string{f.follower}, unchanged)
		}},
		"all, taken back before": {lastGood: true, run: func(f *fallible) {
			f.takeBack()
			f.restart(f.names, unchanged)
		}},
		"all, taken back since": {lastGood: true, run: func(f *fallible) {
			f.settle(5 * time.Second)
			f.restart(f.names, unchanged)
		}},
		"all, twice": {lastGood: true, run: func(f *fallible) {
			f.takeBack()
			f.restart(f.names, unchanged)
			f.follow("z")
			f.restart(f.names, unchanged)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := ""
			if c.lastGood {
				dir = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				f := newFallible(t, dir)
				c.run(f)
				f.returns(f.owner)
				f.returns(f.follower)
				f.check()
			})
		})
	}
}

// TestErrorOfANodeTakenBackElsewhere: the same of an error that a node made itself while the
// origin was down (C16, D15, K15).
func TestErrorOfANodeTakenBackElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFallible(t, "")
		f.restart(f.names, unchanged) // no node knows x, or an error of it
		f.follow("z")
		f.origin.Stop()
		s := f.stream(f.follower, xdstest.Delta)
		s.Resume(xdstest.ClusterType, "", map[string]string{"x": f.versions["x"]}, "x", "z")
		if got := f.all(s); !slices.Equal(got.Names(), []string{"z"}) || len(got.Errors) != 1 {
			t.Fatalf("it was sent %v, expected z and an error of x\n%s", &got, s.Transcript())
		}
		s.Cancel()
		if err := f.origin.Start(); err != nil {
			t.Fatal(err)
		}
		f.settle(time.Minute)
		f.returns(f.owner)
		f.returns(f.follower)
		f.check()
	})
}

// TestErrorsAreNamedByNodes: another node says of which names its clients may remember an
// error; what cannot be read ends its stream with a message that says why. A client that says
// the same is not heard: the field is none of the protocol.
func TestErrorsAreNamedByNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFallible(t, "")
		f.takeBack()
		says := func(s *xdstest.Stream, field []byte) {
			r := &discoveryv3.DeltaDiscoveryRequest{Node: xdstest.Node("client", "red"), TypeUrl: xdstest.ClusterType, ResourceNamesSubscribe: []string{"x", "z"}}
			r.ProtoReflect().SetUnknown(field)
			s.Send(r)
		}
		client := f.stream(f.owner, xdstest.Delta)
		says(client, resource.ErroredField(resource.Errored{Names: []string{"z"}}))
		if got := f.all(client); len(got.Resources) != 2 {
			t.Fatalf("the client was sent %v", &got)
		}
		f.returns(f.owner)

		naming := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return streamer(metadata.AppendToOutgoingContext(ctx, resource.PeerKeyHeader, "red", resource.PeerNodeHeader, "another"), desc, cc, method, opts...)
		}
		peer := xdstest.Dial(t, peerAddr(slices.Index(f.names, f.owner)), f.network.Option(), grpc.WithStreamInterceptor(naming)).Open(xdstest.Delta)
		says(peer, resource.ErroredField(resource.Errored{Names: []string{"\xff"}}))
		if st := peer.ExpectClosed(t); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), "errored is not valid UTF-8") {
			t.Errorf("the stream of a node ended with %v", st)
		}
		f.check()
	})
}
