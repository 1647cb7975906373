package upstream

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/xdstest"
)

// every is the report interval of these tests.
const every = 100 * time.Millisecond

func everyTime(rsp *lrsv3.LoadStatsResponse) bool {
	return rsp.GetLoadReportingInterval().AsDuration() == every
}

// waitTotals receives requests until their sum is what is expected.
func waitTotals(t *testing.T, st *xdstest.LoadOriginStream, want map[string]uint64) {
	t.Helper()
	got := make(map[string]uint64)
	for !maps.Equal(got, want) {
		for zone, n := range totals(st.Next(t)) {
			if got[zone] += n; got[zone] > want[zone] {
				t.Fatalf("%d requests to %q, expected %d", got[zone], zone, want[zone])
			}
		}
	}
}

// TestLoadReports: one stream for all clients of a key, opened with the first, in the name of the
// key and with the feature that lets the server request everything (K4). The relay sends nothing
// before the server requests it, passes the request on, and then reports the sums at that interval,
// even if they are empty.
func TestLoadReports(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		l := o.ServeLoad()
		r := newLoadRig(t, fast(true, o.Addr()), time.Minute)
		l.NoStream(t, 50*time.Millisecond)
		a, b := r.join("k"), r.join("k")
		st := l.NextStream(t)
		first := st.Next(t)
		if n := first.GetNode(); n.GetId() != "relay/k" || n.GetCluster() != "k" || !slices.Equal(n.GetClientFeatures(), []string{"f", allClusters}) {
			t.Fatalf("node %v", n)
		}
		if len(first.GetClusterStats()) != 0 {
			t.Fatalf("reports before it was asked: %v", first)
		}
		a.issued("early", 1, 0)
		st.Quiet(t, 3*every)
		asked := xdstest.LoadTerms(every, "c", "d")
		asked.ReportEndpointGranularity = true
		st.Ask(t, asked)
		for _, c := range []loadClient{a, b, r.join("k")} {
			c.waitTerms("as the origin said", func(rsp *lrsv3.LoadStatsResponse) bool {
				return everyTime(rsp) && slices.Equal(rsp.GetClusters(), []string{"c", "d"}) && rsp.GetReportEndpointGranularity() && !rsp.GetSendAllClusters()
			})
		}
		a.issued("z", 5, 2)
		b.issued("z", 7, 1)
		b.issued("w", 1, 0)
		waitTotals(t, st, map[string]uint64{"early": 1, "z": 12, "w": 1})
		for m := st.Next(t); len(m.GetClusterStats()) != 1; m = st.Next(t) {
		}
		a.Leave()
		for m := st.Next(t); len(m.GetClusterStats()) != 0; m = st.Next(t) { // nothing is in progress any more
			if m.GetNode() != nil {
				t.Fatal("the node is sent again")
			}
		}
		if other := r.join("other"); other.t != nil {
			if n := l.NextStream(t).Next(t).GetNode(); n.GetId() != "relay/other" {
				t.Fatalf("another key reports as %v", n)
			}
		}
		if l.Opened() != 2 {
			t.Fatalf("%d streams for two keys", l.Opened())
		}
	})
}

// TestLoadTermsChange: a later request of the control plane replaces the earlier one.
func TestLoadTermsChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		l := o.ServeLoad()
		c := newLoadRig(t, fast(true, o.Addr()), time.Minute).join("k")
		st := l.NextStream(t)
		st.Next(t)
		st.Ask(t, xdstest.LoadTerms(time.Hour, "other"))
		c.waitTerms("the first", func(rsp *lrsv3.LoadStatsResponse) bool { return len(rsp.GetClusters()) == 1 })
		c.issued("unwanted", 1, 1)
		st.Ask(t, xdstest.LoadTerms(every))
		c.waitTerms("the second", func(rsp *lrsv3.LoadStatsResponse) bool { return rsp.GetSendAllClusters() && everyTime(rsp) })
		c.issued("z", 2, 0)
		waitTotals(t, st, map[string]uint64{"z": 2})
	})
}

// TestLoadUnimplemented: clients are notified that no server accepts their reports, as long as that
// is the case.
func TestLoadUnimplemented(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		r := newLoadRig(t, fast(true, o.Addr()), time.Minute)
		c := r.join("k")
		if why := c.waitRefused(); !strings.Contains(why.Error(), "accepts no load reports") {
			t.Fatalf("refused: %v", why)
		}
		c.Leave()
		l := o.ServeLoad()
		later := r.join("k")
		st := l.NextStream(t)
		st.Ask(t, xdstest.LoadTerms(every))
		later.waitTerms("after all", everyTime)
		st.Close(status.New(codes.Unimplemented, "not any more"))
		if why := later.waitRefused(); !strings.Contains(why.Error(), "not any more") {
			t.Fatalf("refused: %v", why)
		}
	})
}

// TestLoadOutage: while the control plane is unreachable reports accumulate, and clients keep the
// last request. When it is back the relay sends the node again, and all of the load when it is
// requested.
func TestLoadOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		l := o.ServeLoad()
		r := newLoadRig(t, fast(true, o.Addr()), time.Minute)
		c := r.join("k")
		st := l.NextStream(t)
		st.Ask(t, xdstest.LoadTerms(every))
		c.waitTerms("the first", everyTime)
		o.Stop()
		st.WaitClosed(t)
		c.issued("z", 3, 1)
		later := r.join("k")
		later.waitTerms("those before the outage", everyTime)
		later.issued("z", 4, 0)
		if err := o.Start(); err != nil {
			t.Fatal(err)
		}
		st = l.NextStream(t)
		if m := st.Next(t); m.GetNode().GetId() != "relay/k" || len(m.GetClusterStats()) != 0 {
			t.Fatalf("first message after the outage: %v", m)
		}
		st.Quiet(t, 2*every)
		st.Ask(t, xdstest.LoadTerms(every))
		waitTotals(t, st, map[string]uint64{"z": 7})
	})
}

// TestLoadLastWords: K10: the stream is closed some time after the last client has disconnected,
// and when the relay stops. The unsent rest is sent before that.
func TestLoadLastWords(t *testing.T) {
	for name, end := range map[string]func(r *loadRig, c loadClient){
		"idle":  func(_ *loadRig, c loadClient) { c.Leave() },
		"close": func(r *loadRig, c loadClient) { r.Close(); c.Leave() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := memory.NewOrigin(t)
				l := o.ServeLoad()
				r := newLoadRig(t, fast(true, o.Addr()), every)
				c := r.join("k")
				st := l.NextStream(t)
				st.Next(t)
				st.Ask(t, xdstest.LoadTerms(time.Hour))
				c.waitTerms("any", func(*lrsv3.LoadStatsResponse) bool { return true })
				c.issued("z", 9, 0)
				end(r, c)
				waitTotals(t, st, map[string]uint64{"z": 9})
				st.WaitClosed(t)
				l.NoStream(t, 2*every)
			})
		})
	}
}

// TestLoadServerThatStays: a server that does not end its side, or reads nothing, does not delay
// the end.
func TestLoadServerThatStays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		l := o.ServeLoad()
		network := memory.NewNetwork(t, o.Addr())
		r := newLoadRig(t, fast(true, network.Addr()), time.Minute)
		c := r.join("k")
		st := l.NextStream(t)
		st.Ask(t, xdstest.LoadTerms(time.Hour))
		c.waitTerms("any", func(*lrsv3.LoadStatsResponse) bool { return true })
		network.Stall(xdstest.BothWays)
		c.issued("z", 1, 0)
		closed := make(chan struct{})
		go func() {
			r.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(xdstest.Patience):
			t.Fatal("the end is held up")
		}
	})
}

// TestLoadSharesTheConnection: streams of configuration and of load, of whatever key, share one
// connection.
func TestLoadSharesTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		l := o.ServeLoad()
		network := memory.NewNetwork(t, o.Addr())
		cp, err := NewControlPlane(fast(true, network.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		config, reports := newRigOf(t, cp, time.Minute), newLoadRigOf(t, cp, time.Minute)
		config.join("k").want(cds, "a")
		reports.join("k")
		reports.join("m")
		o.NextStream(t).NextRequest(t)
		l.NextStream(t).Next(t)
		l.NextStream(t).Next(t)
		if _, ever := network.Connections(); ever != 1 {
			t.Fatalf("%d connections", ever)
		}
	})
}

// TestLoadFollowsTheServer: C15: reports use the best server that can be reached. They cause no
// connection to another one, and return to the better server when it is back.
func TestLoadFollowsTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		best, second := memory.NewOrigin(t), memory.NewOrigin(t)
		onBest, onSecond := best.ServeLoad(), second.ServeLoad()
		best.Stop()
		network := memory.NewNetwork(t, second.Addr())
		cp, err := NewControlPlane(fast(true, best.Addr(), network.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		config, reports := newRigOf(t, cp, time.Minute), newLoadRigOf(t, cp, time.Minute)
		c := reports.join("k")
		onSecond.NoStream(t, 3*every)
		if _, ever := network.Connections(); ever != 0 {
			t.Fatal("the second server is connected to for load reports only")
		}
		config.join("k").want(cds, "a")
		second.NextStream(t).NextRequest(t)
		reports.join("m")
		st := onSecond.NextStream(t)
		if st.Next(t).GetNode().GetId() == "relay/k" { // it was waiting, and may have arrived first
			st = onSecond.NextStream(t)
			st.Next(t)
		}
		st.Ask(t, xdstest.LoadTerms(every))
		if err := best.Start(); err != nil {
			t.Fatal(err)
		}
		st.WaitClosed(t)
		for range 2 {
			onBest.NextStream(t).Next(t)
		}
		c.Leave()
	})
}

// TestLoadTermsThatMeanNothing: an invalid response ends the stream, which is opened again with
// backoff (C13).
func TestLoadTermsThatMeanNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		l := o.ServeLoad()
		c := newLoadRig(t, fast(true, o.Addr()), time.Minute).join("k")
		st := l.NextStream(t)
		st.Ask(t, &lrsv3.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: &durationpb.Duration{Nanos: -1, Seconds: 1}})
		st.WaitClosed(t)
		l.NextStream(t).Ask(t, xdstest.LoadTerms(every))
		c.waitTerms("good ones", everyTime)
	})
}
