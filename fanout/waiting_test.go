package fanout

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"xdsrelay/relay/xdstest"
)

// expectWaiting holds why a type of the only stream waits.
func (w *world) expectWaiting(typeURL, want string) {
	w.t.Helper()
	synctest.Wait()
	got := w.info(typeURL)
	if text := got.Waiting; text != want {
		w.t.Errorf("%s waits for %q, expected %q: %+v", typeURL, text, want, got)
	}
}

// TestWaiting: K20: why a client was not sent a type is shown: the control plane has not answered,
// the ACK of the response before is awaited, and the type is held after a NACK. Nothing is shown
// where nothing is missing.
func TestWaiting(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.expectWaiting(cds, "control plane has not answered")
		w.change(cds, nil, cluster("a", 1))
		f := has(t, s.Recv(t), "a")
		w.expectWaiting(cds, "awaiting ACK")
		w.change(cds, nil, cluster("a", 2)) // B9
		w.expectWaiting(cds, "awaiting ACK")
		s.Ack(f)
		f = has(t, s.Recv(t), "a")
		s.Nack(f, "no")
		w.expectWaiting(cds, "held after NACK")
		w.change(cds, nil, cluster("a", 3))
		s.Ack(has(t, s.Recv(t), "a"))
		w.expectWaiting(cds, "")
	})
}

// TestWaitingForAnotherType: K20: a route that waits for the ACK of its clusters says so.
func TestWaitingForAnotherType(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		s.Subscribe(rds, "r")
		w.asked(cds, "*")
		w.asked(rds, "r")
		w.change(cds, nil, cluster("a", 1))
		f := has(t, s.Recv(t), "a")
		w.change(cds, nil, cluster("a", 1), cluster("b", 1))
		w.change(rds, nil, route("r", "b"))
		w.expectWaiting(cds, "awaiting ACK")
		w.expectWaiting(rds, "ordered after another type")
		if after := w.info(rds).After; after != cds {
			t.Errorf("the routes are ordered after %q, expected %q", after, cds)
		}
		s.Ack(f)
		s.Ack(s.RecvType(t, cds))
		s.Ack(has(t, s.RecvType(t, rds), "r"))
		w.expectWaiting(rds, "")
	})
}

// TestWaitingForRemovals: K20: a removal that waits for the routes that may lead to what is removed says
// so.
func TestWaitingForRemovals(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		s.Subscribe(rds, "r")
		w.asked(cds, "*")
		w.asked(rds, "r")
		w.change(cds, nil, cluster("a", 1), cluster("b", 1))
		s.Ack(has(t, s.RecvType(t, cds), "a", "b"))
		w.change(rds, nil, route("r", "b"))
		f := has(t, s.RecvType(t, rds), "r")
		w.change(rds, nil, route("r", "a")) // B9
		w.change(cds, []string{"b"}, cluster("a", 1))
		w.expectWaiting(cds, "ordered after another type")
		if after := w.info(cds).After; after != rds {
			t.Errorf("the clusters are ordered after %q, expected %q", after, rds)
		}
		s.Ack(f)
		s.Ack(has(t, s.RecvType(t, rds), "r"))
		s.Ack(s.RecvType(t, cds))
		w.expectWaiting(cds, "")
	})
}

// TestWaitingForTheTierHead: K20: a client that holds newer content than this node says so (K12).
func TestWaitingForTheTierHead(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		head := heldBy(t, cluster("a", 2))
		w := newNode(t, cluster("a", 1))
		w.agree(head)
		w.comes(t, delta, 2, head.Version)
		synctest.Wait()
		waiting := make(map[string]int)
		for _, s := range w.srv.Streams() {
			for _, i := range s.Types {
				waiting[i.Waiting]++
			}
		}
		if waiting["behind the tier head"] != 1 || waiting[""] != 1 {
			t.Errorf("the clients wait for %v", waiting)
		}
		<-time.After(2 * headWait)
	})
}

// TestWaitingForTheTransport: K20: a client that does not read says so.
func TestWaitingForTheTransport(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.net.Client(t, w.addr, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10)).Open(xdstest.Delta)
		types := []string{cds, eds, lds}
		for _, url := range types {
			s.Subscribe(url, "a")
			w.asked(url, "a")
		}
		s.StopReading()
		for _, url := range types { // the client may still take the first
			w.named(url, "a", noisy("a", 2<<20))
		}
		w.expectWaiting(lds, "client does not read")
	})
}
