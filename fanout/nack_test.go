package fanout

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"

	"xdsrelay/relay/xdstest"
)

// B13: a request is a NACK if it has an error, whatever version it quotes; K2:
// what the client said is kept and shown.
func TestNackIsWhatHasAnError(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		f := s.Recv(t)
		s.Send(&discoveryv3.DiscoveryRequest{
			TypeUrl: eds, ResourceNames: []string{"a"}, VersionInfo: f.Version, ResponseNonce: f.Nonce,
			ErrorDetail: &status.Status{Code: 3, Message: "x" + strings.Repeat("é", 5000)},
		})
		w.settled(eds, Nacked)
		n := w.info(eds).LastNack
		if n == nil || n.Code != 3 || n.Version != f.Version || len(n.Message) > maxNackMessage+10 || strings.ContainsRune(n.Message, '\uFFFD') {
			t.Fatalf("what is kept of the NACK: %+v", n)
		}
	})
}

// B14, B16: a NACK holds the type until something newer arrives, and then
// brings all that was rejected.
func TestNackHolds(t *testing.T) {
	each(t, eds, func(t *testing.T, v xdstest.Variant) {
		w := newWorld(t)
		s := w.conn.Open(v)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		s.Ack(s.Recv(t))
		w.change(eds, nil, endpoints("a", 2), endpoints("b", 2))
		s.Nack(s.Recv(t), "no, thanks")
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("b", 3))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		w.change(eds, nil, endpoints("b", 4)) // and an ACK ends it
		has(t, s.Recv(t), "b")
	})
}

// B14: changes that the client cannot see are no reason to repeat what it
// rejected, even where they move its subscription.
func TestNackHoldsThroughInvisibleChanges(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s, other := w.open(delta), w.open(delta)
		other.Subscribe(eds, "x")
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b", "x")
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		s.Nack(has(t, s.Recv(t), "a", "b"), "no")
		w.settled2(eds, Nacked)
		w.change(eds, nil, endpoints("x", 1))
		other.Ack(has(t, other.Recv(t), "x"))
		s.Unsubscribe(eds, "b")
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("x", 2))
		has(t, other.Recv(t), "x")
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("a", 2))
		has(t, s.Recv(t), "a")
	})
}

// B15, B16, B18: names that ride on a NACK or an ACK are subscribed to, and what
// was rejected comes with what they bring.
func TestNamesOnAnswers(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		s.Nack(has(t, s.Recv(t), "a"), "no", "b")
		w.asked(eds, "a", "b")
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("b", 1))
		f := has(t, s.Recv(t), "a", "b") // B16
		s.Ack(f, "c")
		w.asked(eds, "a", "b", "c")
		w.change(eds, nil, endpoints("c", 1))
		has(t, s.Recv(t), "c")
	})
}

// B16: after a NACK the removals of that response are sent again, too, and a resource that has
// changed back since is sent in its current state.
func TestNackOfARemoval(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 1), cluster("b", 1), cluster("c", 1))
		s.Ack(s.Recv(t))
		w.change(cds, []string{"a"}, cluster("b", 2))
		s.Nack(hasRemoved(t, s.Recv(t), []string{"a"}, "b"), "no")
		s.Quiet(t, short)
		w.change(cds, []string{"c"})
		s.Ack(hasRemoved(t, s.Recv(t), []string{"a", "c"}, "b"))
		s.Quiet(t, short)
	})
}

// B16: unchanged content that was sent again and rejected is sent once more, too.
func TestNackOfARepetition(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		s.Ack(s.Recv(t))
		s.Subscribe(eds, "a")
		s.Nack(has(t, s.Recv(t), "a"), "no")
		w.change(eds, nil, endpoints("b", 2))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		s.Quiet(t, short)
	})
}

// B2, B14, E7, K2: a client that rejects everything gets one frame for each
// change, other types and other clients go on, and the log stays short.
func TestNackStorm(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		log := &lines{}
		w := newWorld(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		bad, good := w.open(delta), w.open(delta)
		for _, s := range []*xdstest.Stream{bad, good} {
			s.Subscribe(eds, "a")
			s.Subscribe(rds, "r")
		}
		w.asked(rds, "r")
		const rounds = 50
		for v := range rounds {
			w.change(eds, nil, endpoints("a", v))
			w.change(rds, nil, route("r", fmt.Sprint(v)))
			bad.Nack(has(t, bad.RecvType(t, eds), "a"), "never")
			bad.Ack(has(t, bad.RecvType(t, rds), "r"))
			good.Ack(has(t, good.RecvType(t, eds), "a"))
			good.Ack(has(t, good.RecvType(t, rds), "r"))
		}
		bad.Quiet(t, short)
		good.Quiet(t, short)
		if n := log.count("rejected"); n != 1 {
			t.Errorf("%d NACKs made %d lines, expected 1", rounds, n)
		}
	})
}

// lines counts what is logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(word string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), word)
}

// settled2 waits until one of several streams is in a state.
func (w *world) settled2(typeURL string, state State) {
	w.t.Helper()
	xdstest.Eventually(w.t, string(state), func() bool {
		for _, s := range w.srv.Streams() {
			for _, i := range s.Types {
				if i.TypeURL == typeURL && i.State == state {
					return true
				}
			}
		}
		return false
	})
}

// TestNackOfARefresh: B16, E3: endpoints that came again because of their cluster, and
// were rejected, come again too.
func TestNackOfARefresh(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		s.Subscribe(eds, "a", "b")
		w.asked(cds, "*")
		w.asked(eds, "a", "b")
		w.serve("", cds, cluster("a", 1))
		s.Ack(has(t, s.RecvType(t, cds), "a"))
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		s.Ack(has(t, s.RecvType(t, eds), "a", "b"))
		w.serve("", cds, cluster("a", 2))
		s.Ack(has(t, s.RecvType(t, cds), "a"))
		s.Nack(has(t, s.RecvType(t, eds), "a"), "no")
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("b", 2))
		s.Ack(has(t, s.RecvType(t, eds), "a", "b"))
		s.Quiet(t, short)
	})
}
