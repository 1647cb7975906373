package store_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// next returns the next hint.
func next(t *testing.T, hints <-chan store.Hint) store.Hint {
	t.Helper()
	select {
	case h, ok := <-hints:
		if !ok {
			t.Fatal("the hints ended")
		}
		return h
	case <-time.After(patience):
		t.Fatalf("no hint within %v", patience)
	}
	return store.Hint{}
}

// TestHints: a subscriber first gets a hint to check for itself, then the published hints, and
// again one to check after the connection was lost.
func TestHints(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s, _ := open(t, server.URL())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hints := s.Hints(ctx, store.HeadHints)
	if h := next(t, hints); !h.Missed {
		t.Fatalf("got %+v first", h)
	}
	for i := range 3 {
		if err := s.Hint(t.Context(), store.HeadHints, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		if err := s.Hint(t.Context(), store.MemberHints, "of another channel"); err != nil {
			t.Fatal(err)
		}
		if h := next(t, hints); h.Payload != fmt.Sprint(i) || h.Missed {
			t.Errorf("got %+v, expected %d", h, i)
		}
	}
	for _, fault := range []func(){
		func() { server.Do("CLIENT", "KILL", "TYPE", "pubsub") },
		server.Restart,
	} {
		fault()
		if h := next(t, hints); !h.Missed {
			t.Errorf("got %+v after the connection was lost", h)
		}
		eventually(t, "a hint to be published", func() bool { return s.Hint(t.Context(), store.HeadHints, "back") == nil })
		for h := next(t, hints); h.Payload != "back"; h = next(t, hints) {
			if !h.Missed {
				t.Errorf("got %+v", h)
			}
		}
	}
	cancel()
	for range hints {
		t.Error("a hint came after the end")
	}
}

// TestParts: a subscription adds parts that are wanted, and drops parts once many are not wanted
// any more.
func TestParts(t *testing.T) {
	server := redistest.Start(t, redistest.Config{Real: true})
	s, _ := open(t, server.URL())
	const many = 200
	parts := store.NewParts()
	hints := s.HintsOf(t.Context(), store.HeadHints, parts)
	if h := next(t, hints); !h.Missed || h.Part >= 0 {
		t.Fatalf("got %+v first", h)
	}
	subscribed := func() int {
		all, _ := server.Do("PUBSUB", "CHANNELS", s.Channel(store.HeadHints)+"*").([]any)
		return len(all)
	}
	for i := range many {
		parts.Set(i, true)
	}
	eventually(t, "all parts to be subscribed to", func() bool { return subscribed() == many+1 })
	for i := 1; i < many; i++ {
		parts.Set(i, false)
	}
	eventually(t, "unwanted parts to be given up", func() bool { return subscribed() == 2 })
	for len(hints) > 0 {
		<-hints // makes room
	}
	server.Do("PUBLISH", s.PartChannel(store.HeadHints, 0), "news")
	for h := next(t, hints); h.Payload != "news" || h.Part != 0; h = next(t, hints) {
		if !h.Missed {
			t.Fatalf("got %+v", h)
		}
	}
}

// TestHintsUnreachable: a subscription that cannot connect is retried after growing pauses. Before
// each a cluster client reloads where its servers are.
func TestHintsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		s, _ := open(t, "redis://127.0.0.1:6379", func(c *store.Config) {
			c.Timeout = time.Second
			c.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
				dials++
				select {
				case <-time.After(c.Timeout): // as if the network dropped all packets
					return nil, os.ErrDeadlineExceeded
				case <-ctx.Done(): // the client holds a lock meanwhile, for which the end of the test waits
					return nil, ctx.Err()
				}
			}
		})
		s.Hints(t.Context(), store.HeadHints)
		<-time.After(time.Minute)
		synctest.Wait()
		// Each attempt takes a second; the pauses grow up to 5 s, ± half.
		if dials < 8 || dials > 20 {
			t.Errorf("%d connections were tried within a minute", dials)
		}
	})
}

// TestSlowListener: a subscriber that does not read gets a hint with Missed instead of the others,
// and the buffer does not grow.
func TestSlowListener(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s, _ := open(t, server.URL())
	hints, other := s.Hints(t.Context(), store.HeadHints), s.Hints(t.Context(), store.HeadHints)
	next(t, hints)
	next(t, other)
	const many = 1000
	for i := range many {
		if err := s.Hint(t.Context(), store.HeadHints, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Hint(t.Context(), store.HeadHints, "last"); err != nil {
		t.Fatal(err)
	}
	for h := (store.Hint{}); h.Payload != "last" && !h.Missed; h = next(t, other) {
		// Whether this subscriber keeps up depends on the machine.
	}
	eventually(t, "the slow one to have what it can keep", func() bool { return len(hints) == cap(hints) })
	if cap(hints) > 100 {
		t.Errorf("%d hints are kept", cap(hints))
	}
	var last store.Hint
	eventually(t, "the last hint to say that others were missed", func() bool {
		for len(hints) > 0 {
			last = <-hints
		}
		return last.Missed || last.Payload == "last"
	})
}

// TestHintsEnd: closing the store ends all hints.
func TestHintsEnd(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s, _ := open(t, server.URL())
	hints := s.Hints(t.Context(), store.HeadHints)
	next(t, hints)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range hints {
		t.Error("a hint came after the end")
	}
	if _, ok := <-s.Hints(t.Context(), store.HeadHints); ok {
		t.Error("a hint of a store that is closed")
	}
}

// TestCloseUnanswered: closing waits neither for calls nor for hints that get no answer.
func TestCloseUnanswered(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	s, _ := open(t, "redis://"+mute.Addr().String(), func(c *store.Config) { c.Timeout = time.Hour })
	hints := s.Hints(t.Context(), store.HeadHints)
	called := make(chan error, 1)
	go func() {
		_, err := s.Get(t.Context(), s.Name(store.TierHead, "a"))
		called <- err
	}()
	for range 2 { // one for hints, one for the call
		c, err := mute.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range hints {
		t.Error("a hint came")
	}
	if err := <-called; err == nil {
		t.Error("a call succeeded")
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("closing took %v", took)
	}
}

// TestHintsEndWhileSubscribing: hints end in time while Redis accepts a connection and does not
// answer. The end waits for no lock that the subscription holds meanwhile, which would stop virtual
// time.
func TestHintsEndWhileSubscribing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialed := make(chan struct{}, 100)
		s, _ := open(t, "redis://127.0.0.1:6379", func(c *store.Config) {
			c.Timeout = time.Second
			c.Dial = func(context.Context, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() { // reads all, answers nothing
					_, _ = io.Copy(io.Discard, theirs)
					_ = theirs.Close()
				}()
				dialed <- struct{}{}
				return ours, nil
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		hints := s.Hints(ctx, store.HeadHints)
		<-dialed
		synctest.Wait()
		cancel()
		select {
		case _, open := <-hints:
			for open {
				_, open = <-hints
			}
		case <-time.After(time.Minute):
			t.Error("the hints have not ended")
		}
	})
}
