package fleet

import (
	"context"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// TestSettle holds that clients whose storm was broken off are waited for, and
// that who is in vain is named.
func TestSettle(t *testing.T) {
	o := serveOrigin(t, content.Spec{Keys: 2, Clusters: 3})
	f := newFleet(t, Config{Addrs: []string{o.Addr()}, Clients: 20, Content: content.Spec{Keys: 2, Clusters: 3}, Delta: true})
	connect(t, f)
	over, end := context.WithCancel(t.Context())
	end()
	for _, versions := range []string{"cold", "warm", "cold"} {
		if r, err := f.Storm(over, Storm{Versions: versions}); err != nil || r.Clients != 20 {
			t.Fatalf("%s storm: %+v, %v", versions, r, err)
		}
		if r := f.Settle(patience(t)); !r.Done {
			t.Fatalf("after a %s storm: %+v", versions, r)
		}
		if s := well(t, f); s.Connected != 20 || s.Synced != 20 {
			t.Errorf("settled after a %s storm: %+v", versions, s)
		}
	}
	if err := o.Down(); err != nil {
		t.Fatal(err)
	}
	xdstest.Eventually(t, "the end of all streams", func() bool { return f.connected.Load() == 0 })
	if r := f.Settle(over); r.Done || r.Connected != 0 || r.Synced != 20 || r.Waiting == "" {
		t.Errorf("without a server: %+v", r)
	}
}

// TestSettleEndsChurn holds that nobody reconnects or unsubscribes after that.
func TestSettleEndsChurn(t *testing.T) {
	o := serveOrigin(t, content.Spec{Keys: 1, Clusters: 3})
	f := newFleet(t, Config{
		Addrs: []string{o.Addr()}, Clients: 10, Content: content.Spec{Keys: 1, Clusters: 3}, Delta: true,
		Churn: 100, ChurnEvery: 10 * time.Millisecond,
	})
	connect(t, f)
	streams := o.Stats().StreamsTotal
	xdstest.Eventually(t, "reconnections", func() bool { return o.Stats().StreamsTotal > streams+10 })
	if r := f.Settle(patience(t)); !r.Done {
		t.Fatalf("%+v", r)
	}
	var conns []any
	for _, l := range f.links {
		conns = append(conns, l.conn.Load())
	}
	<-time.After(20 * time.Millisecond) // each client would have its turn twice
	for i, l := range f.links {
		if any(l.conn.Load()) != conns[i] || l.kicked.Load() != kickNone {
			t.Errorf("client %d has reconnected", i)
		}
	}
	xdstest.Eventually(t, "all clients", func() bool { return f.synced.Load() == 10 })
}
