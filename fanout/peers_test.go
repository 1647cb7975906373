package fanout

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// openPeer opens the stream of another node, for a key of its own.
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

// answers is how many requests of another node a response says that it answers.
func answers(t *testing.T, f *xdstest.Frame) uint64 {
	t.Helper()
	b, err := proto.Marshal(f.Raw)
	if err != nil {
		t.Fatal(err)
	}
	r, err := resource.DecodePeer(b)
	if err != nil {
		t.Fatal(err)
	}
	return r.Mark.Edits
}

// TestRemovalsForAnotherNodeComeLater: K12, E5: a node that returns is sent what is new first.
// As long as removals wait that is no complete answer: the node would take what has gone for
// what the origin serves now.
func TestRemovalsForAnotherNodeComeLater(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.openPeer(t)
		s.Resume(cds, "", map[string]string{"x": "held"}, "*")
		w.asked(cds, "*")
		w.serve("", cds, cluster("y", 1))
		first := has(t, s.Recv(t), "y")
		if n := answers(t, first); n != 0 {
			t.Errorf("the response without the removals says that it answers %d requests", n)
		}
		s.Ack(first)
		last := hasRemoved(t, s.Recv(t), []string{"x"})
		if n := answers(t, last); n != 1 {
			t.Errorf("the last response answers %d requests, expected 1", n)
		}
		s.Ack(last)
		s.Quiet(t, resumeLimit)
	})
}
