package fanout

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/xdstest"
)

// B42: a draining node refuses new streams and ends the others with UNAVAILABLE after they had an
// answer, and is done when all have ended.
func TestDrain(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		var streams []*xdstest.Stream
		for range 10 {
			s := w.open(delta)
			s.Subscribe(cds)
			streams = append(streams, s)
		}
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1))
		for _, s := range streams {
			s.Ack(has(t, s.Recv(t), "a"))
		}
		if err := w.srv.Drain(t.Context(), short); err != nil {
			t.Fatalf("drain: %v", err)
		}
		for _, s := range streams {
			refusedWith(t, s, codes.Unavailable, "draining")
		}
		if n := len(w.srv.Streams()); n != 0 {
			t.Fatalf("%d streams are left", n)
		}
		refusedWith(t, w.open(delta), codes.Unavailable, "draining")
		if err := w.srv.Drain(t.Context(), time.Hour); err != nil { // nothing left to do
			t.Fatalf("drain again: %v", err)
		}
	})
}

// B42: the ends are spread over the whole time, and streams without an answer end last.
func TestDrainIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, over = 50, time.Minute
		w := newSilentWorld(t, func(c *Config) { c.FirstRequestTimeout = time.Hour })
		var mu sync.Mutex
		var answered, silent []time.Duration
		var start time.Time
		var done sync.WaitGroup
		for i := range n {
			c := w.openFake(form{})
			asks := i%5 != 0
			if asks {
				if err := c.say(t, &discoveryv3.DiscoveryRequest{Node: xdstest.Node("n", "k"), TypeUrl: cds}); err != nil {
					t.Fatal(err)
				}
			}
			done.Go(func() {
				err := c.end()
				mu.Lock()
				defer mu.Unlock()
				if status.Code(err) != codes.Unavailable {
					t.Errorf("a stream ended %v", err)
				}
				if asks {
					answered = append(answered, time.Since(start))
				} else {
					silent = append(silent, time.Since(start))
				}
			})
		}
		synctest.Wait()
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1))
		synctest.Wait()
		start = time.Now()
		if err := w.srv.Drain(t.Context(), over); err != nil {
			t.Fatalf("drain: %v", err)
		}
		done.Wait()
		for i, at := range slices.Concat(answered, silent) {
			if slice := over / n; at < time.Duration(i)*slice || at > time.Duration(i+1)*slice {
				t.Errorf("stream %d of %d ended after %v of %v", i, n, at, over)
			}
		}
	})
}

// TestDrainOfThoseWhoGo: a drain returns when the last stream has ended by itself.
func TestDrainOfThoseWhoGo(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(cds)
		w.asked(cds, "*")
		drained := make(chan error, 1)
		go func() { drained <- w.srv.Drain(t.Context(), 1000*time.Hour) }()
		synctest.Wait()
		s.Cancel()
		synctest.Wait()
		select {
		case err := <-drained:
			if err != nil {
				t.Errorf("drain: %v", err)
			}
		default:
			t.Error("it goes on")
			s.Cancel()
		}
	})
}

// B42: when the time is over, all remaining streams end at once.
func TestDrainIsCutShort(t *testing.T) {
	w := newWorld(t)
	s := w.open(true)
	s.Subscribe(cds)
	w.asked(cds, "*")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	_ = w.srv.Drain(ctx, time.Hour)
	refusedWith(t, s, codes.Unavailable, "draining")
}
