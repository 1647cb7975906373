package fanout

import (
	"slices"
	"testing"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// bulk is a client that is in the middle of an update of clusters, which comes
// in parts, and that knows the virtual host "rc/x".
func bulk(t *testing.T) (w *world, s *xdstest.Stream, part *xdstest.Frame) {
	w = newWorld(t, small(2))
	s = w.open(true)
	s.Subscribe(vhds, "rc/x")
	w.asked(vhds, "rc/x")
	w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 10, "rc/x")})
	s.Ack(has(t, s.Recv(t), "rc/x"))
	s.Subscribe(cds)
	w.asked(cds, "*")
	w.origin().Apply(cache.Update{Type: resource.TypeOf(cds), Resources: sized(cds, 200, "a", "b", "c", "d")})
	return w, s, has(t, s.Recv(t), "a", "b")
}

// TestOnDemandOvertakesBulk: E7: the names that a client requests on demand are sent while clusters
// are in flight, whether the names are known at the time or not, and exist or not. Everything else
// of the type waits for the clusters (E2), and nothing is lost.
func TestOnDemandOvertakesBulk(t *testing.T) {
	w, s, part := bulk(t)
	s.Subscribe(vhds, "rc/h", "rc/z")
	w.asked(vhds, "rc/x", "rc/h", "rc/z")
	w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 11, "rc/x"), Kind: cache.Partial})
	s.Quiet(t, short)
	w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 10, "rc/h")})
	s.Ack(has(t, s.Recv(t), "rc/h"))
	w.absent(vhds, "rc/z")
	s.Ack(hasRemoved(t, s.Recv(t), []string{"rc/z"}))
	s.Subscribe(vhds, "rc/z") // B35
	s.Ack(hasRemoved(t, s.Recv(t), []string{"rc/z"}))
	s.Quiet(t, short)
	s.Ack(part)
	s.Ack(has(t, s.RecvType(t, cds), "c", "d"))
	f := s.RecvType(t, vhds)
	if !slices.Contains(f.Names(), "rc/x") {
		t.Fatalf("what had to wait was lost: %v", f)
	}
	s.Ack(f)
	s.Quiet(t, short)
}

// TestOnDemandMovesThePosition: E7, B31: if nothing else has to wait, content that was sent on
// demand is not sent twice.
func TestOnDemandMovesThePosition(t *testing.T) {
	w, s, part := bulk(t)
	s.Subscribe(vhds, "rc/h")
	w.asked(vhds, "rc/x", "rc/h")
	w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 10, "rc/h")})
	s.Ack(has(t, s.Recv(t), "rc/h"))
	s.Ack(part)
	s.Ack(has(t, s.Recv(t), "c", "d"))
	s.Quiet(t, short)
}

// TestOnDemandRejected: E7, B14, B16: a rejected answer is held like any other,
// and comes again with the rest.
func TestOnDemandRejected(t *testing.T) {
	w, s, part := bulk(t)
	s.Subscribe(vhds, "rc/h")
	w.asked(vhds, "rc/x", "rc/h")
	w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 10, "rc/h")})
	s.Nack(has(t, s.Recv(t), "rc/h"), "no")
	s.Ack(part)
	s.Ack(has(t, s.Recv(t), "c", "d"))
	s.Quiet(t, short)
	w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 11, "rc/x")})
	f := s.Recv(t)
	if got := slices.Sorted(slices.Values(f.Names())); !slices.Equal(got, []string{"rc/h", "rc/x"}) {
		t.Fatalf("expected all that is unknown to the client: %v", f)
	}
	s.Ack(f)
}

// TestOnDemandAfterARejection: E7, B16: an answer on demand would take the place of one
// that the client has rejected, so that one comes with it, when its turn has come.
func TestOnDemandAfterARejection(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, s, part := bulk(t)
		s.Subscribe(vhds, "rc/h")
		w.asked(vhds, "rc/x", "rc/h")
		w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 10, "rc/h")})
		s.Nack(has(t, s.Recv(t), "rc/h"), "no")
		s.Subscribe(vhds, "rc/k")
		w.asked(vhds, "rc/x", "rc/h", "rc/k")
		w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 10, "rc/k")})
		s.Quiet(t, short)
		s.Ack(part)
		s.Ack(has(t, s.RecvType(t, cds), "c", "d"))
		s.Ack(has(t, s.RecvType(t, vhds), "rc/h", "rc/k"))
		s.Quiet(t, short)
	})
}

// TestOnDemandClusters: E7: clusters asked for on demand come with the next part,
// whatever else is on its way.
func TestOnDemandClusters(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, small(2))
		s := w.open(true)
		names := []string{"a", "b", "c", "d", "e", "f"}
		s.Subscribe(cds, names...)
		w.asked(cds, names...)
		w.origin().Apply(cache.Update{Type: resource.TypeOf(cds), Resources: sized(cds, 200, names...)})
		part := has(t, s.Recv(t), "a", "b")
		s.Subscribe(cds, "x")
		w.asked(cds, append(names, "x")...)
		w.origin().Apply(cache.Update{Type: resource.TypeOf(cds), Resources: sized(cds, 200, "x")})
		s.Ack(part)
		f := s.Recv(t)
		if !slices.Contains(f.Names(), "x") {
			t.Fatalf("the cluster that was asked for has to wait: %v", f)
		}
		s.Ack(f)
	})
}

// TestAnswersToOneTypeOnly: E7: a client that never answers one type gets the
// others.
func TestAnswersToOneTypeOnly(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		s.Subscribe(rds, "r")
		w.asked(rds, "r")
		w.serve("", cds, cluster("a", 1))
		has(t, s.RecvType(t, cds), "a")
		for v := range 3 {
			w.change(rds, nil, route("r", string(rune('a'+v))))
			s.Ack(has(t, s.RecvType(t, rds), "r"))
		}
	})
}
