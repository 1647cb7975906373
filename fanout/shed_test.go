package fanout

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"

	"xdsrelay/fanout/conn"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/load"
	"xdsrelay/relay/xdstest"
)

// served opens clients, each on its own connection, that hold all content.
func (w *world) served(count int) (streams []*xdstest.Stream) {
	w.t.Helper()
	for i := range count {
		s := w.dial().Open(xdstest.Variant{Delta: true})
		s.Subscribe(cds)
		if i == 0 {
			w.asked(cds, "*")
			w.serve("v1", cds, cluster("a", 1))
		}
		s.Ack(has(w.t.(*testing.T), s.Recv(w.t), "a"))
		streams = append(streams, s)
	}
	return streams
}

// goOn fails the test unless each stream gets the next change.
func (w *world) goOn(streams []*xdstest.Stream, v int) {
	w.t.Helper()
	w.serve(fmt.Sprint("v", v), cds, cluster("a", v))
	for _, s := range streams {
		s.Ack(has(w.t.(*testing.T), s.Recv(w.t), "a"))
	}
}

// openConns returns the open connections.
func (w *world) openConns() (all []*conn.Conn) {
	for _, d := range w.srv.listeners {
		all = append(all, d.Open()...)
	}
	return all
}

// TestShedStreamless: when memory is short, connections without a stream end first, the oldest
// before others, whether HTTP/2 has begun on them or not; clients with streams stay.
func TestShedStreamless(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.HandshakeTimeout = time.Hour })
		good := w.served(5)
		const many = streamlessLeast + 30
		for i := range many {
			conn, err := w.net.Dial(t.Context(), w.addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if i%2 == 0 {
				_, _ = io.WriteString(conn, http2.ClientPreface)
				_ = http2.NewFramer(conn, nil).WriteSettings()
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
		}
		if n := w.srv.ShedCostly(); n != 0 {
			t.Errorf("%d clients were shed", n)
		}
		if n := len(w.openConns()); n != many+len(good) {
			t.Errorf("%d connections are left of those that were just made", n)
		}
		time.Sleep(2 * streamlessGrace) //nolint:forbidigo // virtual time
		before := w.openConns()
		slices.SortFunc(before, func(a, b *conn.Conn) int {
			x, _ := a.Streamless()
			y, _ := b.Streamless()
			return x.Compare(y)
		})
		if n := w.srv.ShedCostly(); n != 0 {
			t.Errorf("%d clients were shed", n)
		}
		time.Sleep(2 * drainTime) //nolint:forbidigo // virtual time
		synctest.Wait()
		left := w.openConns()
		if len(left) != len(before)-streamlessLeast {
			t.Errorf("%d of %d connections are left", len(left), len(before))
		}
		for _, c := range left {
			since, is := c.Streamless()
			if oldest, _ := before[len(good)+streamlessLeast].Streamless(); is && since.Before(oldest) {
				t.Errorf("a connection without a stream since %v is left, although younger ones ended", since)
			}
		}
		w.goOn(good, 2)
	})
}

// TestStreamsKeepConnections: a connection counts as streamless only after its last stream has
// ended.
func TestStreamsKeepConnections(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		one := w.open(true)
		one.Subscribe(cds)
		w.asked(cds, "*")
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		if n := len(w.srv.streamless(time.Now())); n != 0 {
			t.Fatalf("%d connections have no stream", n)
		}
		one.CloseSend()
		synctest.Wait()
		if n := len(w.srv.streamless(time.Now())); n != 0 {
			t.Error("a connection whose stream just ended may be closed at once")
		}
		time.Sleep(streamlessGrace) //nolint:forbidigo // virtual time
		if n := len(w.srv.streamless(time.Now())); n != 1 {
			t.Errorf("%d connections have no stream, expected 1", n)
		}
	})
}

// TestShedLoads: a client's cost includes its load reports: when memory is short it is shed, and no
// other.
func TestShedLoads(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newLoadWorld(t)
		good := w.served(20)
		greedy, modest := w.open(w.dial()), w.open(w.dial())
		o := w.outlet()
		w.ask(o, xdstest.LoadTerms(time.Minute))
		greedy.Terms(t)
		modest.Terms(t)
		for i := range 1000 {
			_ = greedy.Report(xdstest.ClusterLoad(fmt.Sprint("cluster-", i), xdstest.ZoneLoad("z", 1, 1)))
		}
		_ = modest.Report(issued(1))
		synctest.Wait()
		if n := w.srv.ShedCostly(); n != 0 {
			t.Errorf("%d clients for configuration were shed", n)
		}
		loadRefused(t, greedy, codes.ResourceExhausted, limit.Memory.About().Field)
		for range 10 {
			if n := w.srv.ShedCostly(); n != 0 {
				t.Fatalf("%d clients were shed", n)
			}
		}
		w.goOn(good, 2)
		modest.Quiet(t, short)
	})
}

// TestShedSparesMostClients: clients of normal cost are not shed, however short memory is.
func TestShedSparesMostClients(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		good := w.served(30)
		for range 10 {
			if n := w.srv.ShedCostly(); n != 0 {
				t.Fatalf("%d clients were shed", n)
			}
		}
		w.goOn(good, 2)
	})
}

// TestMostCostly: which clients are shed, by their costs and sources.
func TestMostCostly(t *testing.T) {
	const kib, used = 1 << 10, 800 << 20
	l, err := limit.New(limit.Values{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	// some makes clients of a source, each of the given cost.
	some := func(source byte, count, cost int) (all []*connection) {
		at := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, source}), 1))
		for range count {
			reservation, err := l.Enter(limit.SourceOf(at), "")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &connection{streams: []*caller{{reservation: reservation}}, cost: cost})
		}
		return all
	}
	for what, c := range map[string]struct {
		all    []*connection
		used   int
		source string // source of the shed clients; empty for none
		count  int
	}{
		"nobody":                           {nil, used, "", 0},
		"all alike":                        {some(1, 200, 40*kib), used, "", 0},
		"all alike, memory unknown":        {some(1, 200, 40*kib), 0, "", 0},
		"twice the median":                 {append(some(1, 200, 40*kib), some(2, 1, 80*kib)...), used, "", 0},
		"far from the median":              {append(some(1, 200, 40*kib), some(2, 40, 20<<20)...), used, "10.0.0.2", 3},
		"far, of the same source":          {append(some(1, 200, 40*kib), some(1, 1, 20<<20)...), used, "10.0.0.1", 1},
		"alone with most of the memory":    {some(1, 1, 500<<20), used, "10.0.0.1", 1},
		"a source with most of the memory": {slices.Concat(some(1, 200, 40*kib), some(2, 200, 40*kib), some(3, 10_000, 30*kib)), used, "10.0.0.3", 105},
		"a source that only has many":      {slices.Concat(some(1, 10, 40*kib), some(2, 10, 40*kib), some(3, 1000, 40*kib)), used, "", 0},
		"one of two sources":               {append(some(1, 200, 40*kib), some(2, 10_000, 40*kib)...), used, "10.0.0.2", 103},
	} {
		got := mostCostly(c.all, c.used)
		if len(got) != c.count {
			t.Errorf("%s: %d are shed, expected %d", what, len(got), c.count)
		}
		for _, g := range got {
			if g.owner() != c.source {
				t.Errorf("%s: one of %s is shed", what, g.owner())
				break
			}
		}
	}
}

// TestLargeLoadReportsInTurn: large load reports, which take many times their size when decoded,
// are decoded a few at a time; small ones do not wait for them.
func TestLargeLoadReportsInTurn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newLoadWorld(t)
		large, small := w.open(w.dial()), w.open(w.dial())
		o := w.outlet()
		w.ask(o, xdstest.LoadTerms(time.Minute))
		large.Terms(t)
		small.Terms(t)
		for range maxLargeLoads {
			w.srv.largeLoads <- struct{}{} // as if others were being decoded
		}
		var zones []*endpointv3.UpstreamLocalityStats
		for i := range largeLoad / 20 {
			zones = append(zones, xdstest.ZoneLoad(fmt.Sprintf("zone-%016d", i), 1, 0))
		}
		_ = large.Report(xdstest.ClusterLoad("c", zones...))
		_ = small.Report(issued(5))
		waitLoads(t, o, loads{"z": {5, 0}})
		if n := len(taken(o)); n > 1 {
			t.Errorf("%d zones of a report are known that waits for its turn", n)
		}
		<-w.srv.largeLoads
		xdstest.Eventually(t, "the large report to be added up", func() bool { return len(taken(o)) == len(zones) })
		<-w.srv.largeLoads
	})
}

// taken returns the zones with reported load.
func taken(o *load.Outlet) loads {
	l := loads{}
	l.take(o)
	return l
}

// TestNamesAreCharged: new names of a stream count as requests by the memory that they take: a
// client that makes up names indefinitely is throttled. Names that it had before are free.
func TestNamesAreCharged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const names = 5000
		w := newWorld(t, func(c *Config) {
			var err error
			if c.Limits, err = limit.New(limit.Values{RequestsPerSecond: 10, RequestBurst: 10}, nil, nil); err != nil {
				t.Fatal(err)
			}
		})
		s := w.open(true)
		var many []string
		for i := range names {
			many = append(many, fmt.Sprint("name-", i))
		}
		s.Subscribe(eds, many...)
		w.askedMany(eds, names)
		s.Subscribe(eds, many...) // read after a pause
		s.Subscribe(eds, "next")
		pause := names * cache.NameCost / limit.NameBytes / 10
		time.Sleep(time.Duration(pause-2) * time.Second) //nolint:forbidigo // virtual time
		synctest.Wait()
		wanted := func() int {
			return w.srv.Streams()[0].Types[0].Names
		}
		if n := wanted(); n != names {
			t.Errorf("after %d s the stream has %d names", pause-2, n)
		}
		time.Sleep(4 * time.Second) //nolint:forbidigo // virtual time
		synctest.Wait()
		if n := wanted(); n != names+1 {
			t.Errorf("the stream has %d names once its pause is over", n)
		}
	})
}
