package relay_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// fallible is a tier with a client that holds a cluster and remembers an error of it.
type fallible struct {
	*following

	t        *testing.T
	origin   *xdstest.Origin
	up       *xdstest.OriginStream
	versions map[string]string // that the client holds
}

// newFallible makes the client hear on the owner of its key of a resource, and of an error
// in its place.
func newFallible(t *testing.T, change func(*fallible)) *fallible {
	t.Helper()
	f := &fallible{t: t}
	f.following, f.origin = scriptedTier(t)
	change(f)
	s := f.stream(f.owner, xdstest.Delta)
	s.Subscribe(xdstest.ClusterType, "x", "z")
	if f.up == nil {
		f.up = f.origin.NextStream(t)
	}
	f.up.NextRequest(t)
	f.serve("x", "z")
	f.versions = map[string]string{}
	for len(f.versions) < 2 {
		frame := s.Recv(t)
		for _, r := range frame.Resources {
			f.versions[r.Name] = r.Version
		}
		s.Ack(frame)
	}
	f.fail("x")
	frame := s.Recv(t)
	if len(frame.Errors) != 1 {
		t.Fatalf("%v, expected an error", frame)
	}
	s.Ack(frame)
	synctest.Wait()
	s.Cancel()
	return f
}

func (f *fallible) send(r *discoveryv3.DeltaDiscoveryResponse) {
	f.t.Helper()
	r.TypeUrl, r.Nonce = xdstest.ClusterType, "n"
	if err := f.up.Send(r); err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
}

// serve sends resources, always the same.
func (f *fallible) serve(names ...string) {
	f.t.Helper()
	r := &discoveryv3.DeltaDiscoveryResponse{}
	for _, n := range names {
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: n, Version: "1", Resource: xdstest.Any(xdstest.Cluster(n, time.Second))})
	}
	f.send(r)
}

// fail sends an error that leaves copies in place.
func (f *fallible) fail(name string) {
	f.t.Helper()
	f.send(&discoveryv3.DeltaDiscoveryResponse{ResourceErrors: []*discoveryv3.ResourceError{
		{ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: &statuspb.Status{Code: 14, Message: "for now"}},
	}})
}

// returns makes the client come back with what it holds, to a node which has to send it the
// resource of which it remembers an error, and nothing else.
func (f *fallible) returns(node string) {
	f.t.Helper()
	s := f.stream(node, xdstest.Delta)
	s.Resume(xdstest.ClusterType, "", f.versions, "x", "z")
	frame := s.Recv(f.t)
	if len(frame.Resources) != 1 || frame.Resources[0].Name != "x" || len(frame.Errors) > 0 {
		f.t.Errorf("%s: %v, expected x alone", node, frame)
	}
	s.Ack(frame)
	s.Quiet(f.t, 5*time.Second)
	s.Cancel()
}

// TestErrorTakenBackElsewhere: a delta client that hears of an error on one node, and comes
// back to another with what it holds, is sent the resource again, which alone takes the
// error back; whether that node followed the key then or not (C16, D15).
func TestErrorTakenBackElsewhere(t *testing.T) {
	for what, before := range map[string]bool{"followed before": true, "follows later": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFallible(t, func(f *fallible) {
					if before {
						s := f.stream(f.follower, xdstest.Delta)
						s.Subscribe(xdstest.ClusterType, "x")
						f.up = f.origin.NextStream(t)
					}
				})
				f.serve("x")
				f.returns(f.follower)
				f.returns(f.owner)
			})
		})
	}
}

// TestErrorTakenBackAfterRestart: the same of a node that was restarted meanwhile and knows
// from its last known good state what it served (C16, D15, K14).
func TestErrorTakenBackAfterRestart(t *testing.T) {
	for what, served := range map[string]bool{"taken back before": true, "taken back after": false} {
		dir := t.TempDir()
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFallible(t, func(f *fallible) {
					f.kill(f.owner)
					c := f.configs[f.owner]
					c.LastGood.Store, c.LastGood.Directory, c.LastGood.Delay = config.StoreDirectory, filepath.Join(dir, what), 100*time.Millisecond
					f.start(f.owner)
				})
				if served {
					f.serve("x")
				}
				time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time: it is kept
				f.kill(f.owner)
				f.start(f.owner)
				s := f.stream(f.owner, xdstest.Delta)
				s.Subscribe(xdstest.ClusterType, "x", "z")
				f.up = f.origin.NextStream(t)
				f.up.NextRequest(t)
				f.serve("x", "z")
				f.returns(f.owner)
			})
		})
	}
}
