package hostile

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"xdsrelay/bench/fleet"
	"xdsrelay/relay/xdstest"
)

// idleCost is what an idle client may take, in live bytes: 15 KiB, and less than a read
// buffer of 8 KiB more.
const idleCost = 19 << 10

// idleClients lets very many clients connect, which then do nothing but acknowledge: none
// of them pins a buffer of the size that the node reads at a time.
func idleClients(t *testing.T, s *stage) {
	n := size(1000, 7000)
	s.changing.Lock()
	calm := sync.OnceFunc(s.changing.Unlock)
	defer calm()
	before := s.live(t)
	f := s.joins(t, good, n)
	defer f.Close()
	var each int64
	xdstest.Eventually(t, fmt.Sprintf("idle clients to take at most %d bytes of live memory each", idleCost), func() bool {
		each = (s.footprint(t).heap - before.heap) / int64(n)
		return each <= idleCost || s.dead()
	})
	t.Logf("%d idle clients take %.1f KiB each", n, float64(each)/1024)
	calm()
	s.forget() // while they came, the machine was busy
}

// crowd is as many clients as the node has memory for, all of which get each change at once,
// while some reconnect again and again: a node that has no memory to spare refuses those.
func crowd(t *testing.T, s *stage) {
	short := s.shortOfMemory(t)
	n, some := size(1500, 7000), size(60, 200)
	steady := s.joins(t, good, n)
	defer steady.Close()
	coming := s.joins(t, good+n, some)
	defer coming.Close()
	s.forget() // while the crowd came, the machine was busy
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var storms sync.WaitGroup
	storms.Go(func() {
		for ctx.Err() == nil && !s.dead() {
			limit, stop := context.WithTimeout(t.Context(), xdstest.Patience)
			if r, err := coming.Storm(limit, fleet.Storm{Versions: "cold", Quiet: time.Millisecond}); err != nil || !r.Done {
				t.Errorf("clients reconnect: %+v, %v, %+v", r, err, coming.Progress().Ends)
			}
			stop()
		}
	})
	s.small.Store(true) // grpc-go keeps the write buffer of a small response until its next turn
	changes := s.changes.Load()
	xdstest.Eventually(t, "small changes to reach the good clients", func() bool { return s.changes.Load() >= changes+40 || s.dead() })
	s.small.Store(false)
	end()
	storms.Wait()
	if p := steady.Progress(); p.Connected != int64(n) || len(p.Ends) > 0 {
		t.Errorf("%d of %d clients are left: %+v", p.Connected, n, p.Ends)
	}
	if now := s.shortOfMemory(t); now > short {
		t.Errorf("%d clients were refused or shed for want of memory, expected none", now-short)
	}
}

// joins lets a fleet connect, and waits until it has everything.
func (s *stage) joins(t *testing.T, first, n int) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(fleet.Config{Addrs: []string{s.XDS}, Clients: n, FirstClient: first, Content: spec, Delta: true, ConnectParallel: 32})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	if r, err := f.Connect(ctx, 0, fleet.Synced); err != nil || !r.Done {
		f.Close()
		t.Fatalf("the crowd: %+v, %v", r, err)
	}
	return f
}
