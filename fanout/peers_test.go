package fanout

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// openPeer opens the stream of another node, for its own key.
func (w *world) openPeer(t *testing.T) *xdstest.Stream {
	t.Helper()
	gs := grpc.NewServer(w.srv.ServerOptions()...)
	w.srv.RegisterPeers(gs)
	l, err := w.net.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = gs.Serve(l)
	}()
	t.Cleanup(func() {
		gs.Stop()
		<-served
	})
	naming := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(metadata.AppendToOutgoingContext(ctx, resource.PeerKeyHeader, "key", resource.PeerNodeHeader, "another"), desc, cc, method, opts...)
	}
	return w.net.Client(t, l.Addr().String(), grpc.WithStreamInterceptor(naming)).Open(xdstest.Delta)
}

// markOf returns the mark of a response to another node.
func markOf(t *testing.T, f *xdstest.Frame) resource.PeerMark {
	t.Helper()
	b, err := proto.Marshal(f.Raw)
	if err != nil {
		t.Fatal(err)
	}
	r, err := resource.DecodePeer(b)
	if err != nil {
		t.Fatal(err)
	}
	return r.Mark
}

// TestRemovalsForAnotherNodeComeLater: K12, E5: a node that reconnects is sent new content first.
// While removals wait that is not a complete answer: the node would take what was removed for
// current content.
func TestRemovalsForAnotherNodeComeLater(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.openPeer(t)
		s.Resume(cds, "", map[string]string{"x": "held"}, "*")
		w.asked(cds, "*")
		w.serve("", cds, cluster("y", 1))
		first := has(t, s.Recv(t), "y")
		if n := markOf(t, first).Edits; n != 0 {
			t.Errorf("the response without the removals says that it answers %d requests", n)
		}
		s.Ack(first)
		last := hasRemoved(t, s.Recv(t), []string{"x"})
		if n := markOf(t, last).Edits; n != 1 {
			t.Errorf("the last response answers %d requests, expected 1", n)
		}
		s.Ack(last)
		s.Quiet(t, resumeLimit)
	})
}

// TestKeptForAnotherNode: K16: a node that holds clusters back says so with the absence of endpoints, so
// that clients of another node keep what it never had; without a hold it does not. When the control plane has
// the clusters again, and nothing new of the endpoints, it says that, too.
func TestKeptForAnotherNode(t *testing.T) {
	for _, holds := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			w := newWorldOf(t, cache.Config{Linger: time.Minute, MaxRemovalPercent: 50, RemovalHold: time.Hour}).listen()
			s := w.openPeer(t)
			s.Subscribe(cds, "*")
			w.asked(cds, "*")
			w.origin().Up()
			w.serve("", cds, cluster("x", 1), cluster("y", 1))
			s.Ack(has(t, s.Recv(t), "x", "y"))
			if holds {
				w.serve("", cds)
			}
			s.Subscribe(eds, "x")
			w.asked(eds, "x")
			w.change(eds, []string{"x"})
			f := s.RecvType(t, eds)
			if got := markOf(t, f).Kept; got != holds {
				t.Errorf("clusters are held back: %t, and it says so: %t", holds, got)
			}
			if s.Ack(f); !holds {
				s.Quiet(t, 2*time.Minute)
				return
			}
			s.Quiet(t, time.Minute)
			w.serve("", cds, cluster("x", 1), cluster("y", 1))
			time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
			if f = s.RecvType(t, eds); markOf(t, f).Kept {
				t.Error("the clusters are there again, and it says that they are held back")
			}
			s.Ack(f)
			s.Quiet(t, 2*time.Minute)
		})
	}
}

// TestAgeForAnotherNode: K12: a node that cannot reach the control plane sends the age of its
// content to another node, so that newer content there does not give way to it.
func TestAgeForAnotherNode(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.openPeer(t)
		s.Subscribe(cds, "*")
		w.asked(cds, "*")
		w.origin().Up()
		w.serve("", cds, cluster("x", 1))
		first := has(t, s.Recv(t), "x")
		if m := markOf(t, first); m.Cut || m.Age != 0 {
			t.Errorf("with a control plane: %+v", m)
		}
		s.Ack(first)
		w.origin().Down(errors.New("gone"))
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		later := w.openPeer(t)
		later.Subscribe(cds, "*")
		if m := markOf(t, has(t, later.Recv(t), "x")); !m.Cut || m.Age != time.Minute {
			t.Errorf("a minute after the control plane was lost: %+v", m)
		}
	})
}
