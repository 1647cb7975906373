package fanout

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"xdsrelay/relay/cache"
)

// TestRefusedAfterAnAnswer: a client that is refused on a stream that had an answer would reopen it
// without a pause (C13), so the stream ends a moment later, and sends nothing until then. A stream
// without an answer ends at once.
func TestRefusedAfterAnAnswer(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorldOf(t, cache.Config{Streams: []cache.OriginStream{{MaxNames: 1000}}}).listen()
		large := strings.Repeat("n", 1001)
		keeper := w.open(delta)
		keeper.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1))
		keeper.Ack(has(t, keeper.Recv(t), "a"))

		for range 3 {
			s := w.open(delta)
			s.Subscribe(cds)
			s.Ack(has(t, s.Recv(t), "a"))
			began := time.Now()
			s.Subscribe(eds, large)
			synctest.Wait() // until the client is refused
			w.change(cds, nil, cluster("a", 2))
			keeper.Ack(has(t, keeper.Recv(t), "a"))
			refusedWith(t, s, codes.ResourceExhausted, "upstream.max_names_size")
			if pause := time.Since(began); pause != refusalPause {
				t.Errorf("the stream ended after %v, expected %v", pause, refusalPause)
			}
			w.change(cds, nil, cluster("a", 1))
			keeper.Ack(has(t, keeper.Recv(t), "a"))
		}

		s, began := w.open(delta), time.Now()
		s.Subscribe(eds, large)
		refusedWith(t, s, codes.ResourceExhausted, "upstream.max_names_size")
		if pause := time.Since(began); pause != 0 {
			t.Errorf("a stream without an answer ended after %v, expected at once", pause)
		}
	})
}
