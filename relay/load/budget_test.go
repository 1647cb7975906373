package load

import (
	"fmt"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// clustersOf reports so many clusters of a prefix.
func clustersOf(prefix string, n int) (stats []*endpointv3.ClusterStats) {
	for i := range n {
		stats = append(stats, of(fmt.Sprint(prefix, "-", i), zone("z", 1, 1))...)
	}
	return stats
}

// TestTotalBound: many keys whose clients fill them hold no more together than all keys
// may, and leave room for a key whose clients report little.
func TestTotalBound(t *testing.T) {
	const total, greedy = 1 << 20, 40
	r := newRig(t, Config{MaxBytes: total, TotalBytes: total})
	defer r.Close()
	var clients []*Client
	for i := range greedy {
		c := r.join(keyOf(i))
		o := <-r.outlets
		mustAsk(t, o.Outlet, everything(time.Second))
		if left := c.Report(clustersOf("cluster", 5000)); left == 0 {
			t.Fatalf("key %d holds all of its report", i)
		}
		clients = append(clients, c)
	}
	if used := r.budget.used.Load(); used < total/2 || used > total {
		t.Errorf("%d keys hold %d bytes beyond what each may hold, expected up to %d", greedy, used, total)
	}
	modest := r.join("modest")
	o := <-r.outlets
	mustAsk(t, o.Outlet, everything(time.Second))
	if left := modest.Report(clustersOf("modest", 5)); left != 0 {
		t.Errorf("%d things of a key that reports little are left out", left)
	}
	for _, c := range clients {
		c.Leave()
	}
	modest.Leave()
}

// TestRoomComesBack: a key that nobody adds to gives its room back, also if it was never
// reported.
func TestRoomComesBack(t *testing.T) {
	r := newRig(t, Config{Linger: -1})
	defer r.Close()
	c := r.join("k")
	o := <-r.outlets
	c.Report(clustersOf("cluster", 100))
	if r.budget.used.Load() == 0 {
		t.Fatal("the report takes nothing")
	}
	c.Leave()
	<-o.ctx.Done()
	close(o.done)
	r.join("other").Leave() // the account is forgotten by then, or its report goes on
	for deadline := time.Now().Add(time.Minute); r.budget.used.Load() != 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are held of a key without clients", r.budget.used.Load())
		}
	}
}

// TestCost: what an account holds is charged to the client that made it hold that, for
// as long as it does; whoever keeps it alive after that client has left inherits it.
func TestCost(t *testing.T) {
	r := newRig(t, Config{})
	defer r.Close()
	greedy, modest := r.join("k"), r.join("k")
	o := <-r.outlets
	mustAsk(t, o.Outlet, everything(time.Second))
	modest.Report(clustersOf("both", 1))
	many := clustersOf("both", 1000)
	greedy.Report(many)
	if g, m := greedy.Cost(), modest.Cost(); g < 400*1000 || m > 1000 {
		t.Errorf("the clients cost %d and %d bytes", g, m)
	}
	for range 3 { // keeping it alive costs as much
		taken(o.Outlet)
		greedy.Report(many)
	}
	if g := greedy.Cost(); g < 400*1000 {
		t.Errorf("a client that keeps much alive costs %d bytes", g)
	}
	heir := r.join("k")
	greedy.Leave()
	heir.Report(many)
	if h := heir.Cost(); h < 400*1000 {
		t.Errorf("the heir costs %d bytes", h)
	}
	heir.Report(nil)
	for range 2 {
		taken(o.Outlet)
	}
	if h := heir.Cost(); h != 0 {
		t.Errorf("a client of which nothing is held costs %d bytes", h)
	}
	heir.Leave()
	modest.Leave()
}

// TestExtraCost: what goes when the sums are taken is charged until then.
func TestExtraCost(t *testing.T) {
	r := newRig(t, Config{})
	defer r.Close()
	maker, greedy := r.join("k"), r.join("k")
	o := <-r.outlets
	mustAsk(t, o.Outlet, everything(time.Second))
	maker.Report(clustersOf("c", 1))
	l := zone("z", 1, 0)
	for i := range 1000 {
		l.LoadMetricStats = append(l.LoadMetricStats, &endpointv3.EndpointLoadMetricStats{MetricName: fmt.Sprint("m", i), TotalMetricValue: 1})
	}
	greedy.Report(of("c-0", l))
	if m, g := maker.Cost(), greedy.Cost(); m > 1000 || g < 80*1000 {
		t.Errorf("they cost %d and %d bytes", m, g)
	}
	taken(o.Outlet)
	if g := greedy.Cost(); g != 0 {
		t.Errorf("it costs %d bytes after the sums were taken", g)
	}
	maker.Leave()
	greedy.Leave()
}
