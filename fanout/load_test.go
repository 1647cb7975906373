package fanout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/load"
	"xdsrelay/relay/xdstest"
)

// loadWorld is a world in which the test is the control plane for load reports.
type loadWorld struct {
	*world
	outlets chan *load.Outlet
}

func newLoadWorld(t xdstest.TB, change ...func(*Config)) *loadWorld {
	t.Helper()
	w := &loadWorld{outlets: make(chan *load.Outlet, 100)}
	loads, err := load.New(load.Config{Run: func(ctx context.Context, o *load.Outlet) {
		w.outlets <- o
		<-ctx.Done()
	}})
	if err != nil {
		t.Fatalf("loads: %v", err)
	}
	t.Cleanup(loads.Close)
	w.world = newWorld(t, append(change, func(c *Config) { c.Loads = loads })...)
	return w
}

// outlet returns the upstream side of the next key that gets a client.
func (w *loadWorld) outlet() *load.Outlet {
	w.t.Helper()
	select {
	case o := <-w.outlets:
		return o
	case <-time.After(xdstest.Patience):
		w.t.Fatalf("no client made the relay ask its origin for what to report")
		return nil
	}
}

// open opens a stream of a client and sends its Node.
func (w *loadWorld) open(c *xdstest.Conn) *xdstest.LoadStream {
	w.t.Helper()
	s := c.OpenLoad()
	_ = s.Report()
	return s
}

func (w *loadWorld) ask(o *load.Outlet, rsp *lrsv3.LoadStatsResponse) {
	w.t.Helper()
	if _, err := o.Ask(rsp); err != nil {
		w.t.Fatalf("ask: %v", err)
	}
}

// loads sums up what is reported upstream of cluster "c": by zone, the requests issued and those in
// progress.
type loads map[string][2]uint64

func (l loads) take(o *load.Outlet) {
	for zone, n := range l { // gauges are not summed up
		if l[zone] = [2]uint64{n[0], 0}; n[0] == 0 {
			delete(l, zone)
		}
	}
	for _, q := range o.Take() {
		for _, c := range q.GetClusterStats() {
			for _, z := range c.GetUpstreamLocalityStats() {
				n := l[z.GetLocality().GetZone()]
				l[z.GetLocality().GetZone()] = [2]uint64{n[0] + z.GetTotalIssuedRequests(), z.GetTotalRequestsInProgress()}
			}
		}
	}
}

// waitLoads waits until the reports since the last call are as expected.
func waitLoads(t *testing.T, o *load.Outlet, want loads) {
	t.Helper()
	got := loads{}
	defer func() {
		if t.Failed() {
			t.Logf("the last were %v, expected %v", got, want)
		}
	}()
	xdstest.Eventually(t, "loads", func() bool {
		got.take(o)
		return maps.Equal(got, want)
	})
}

func loadRefused(t *testing.T, s *xdstest.LoadStream, code codes.Code, words string) {
	t.Helper()
	if st := s.ExpectClosed(t); st.Code() != code || !strings.Contains(st.Message(), words) {
		t.Fatalf("the stream ended %v, expected %v about %q", st, code, words)
	}
}

// issued is a report of requests to zone z.
func issued(n uint64) *endpointv3.ClusterStats {
	return xdstest.ClusterLoad("c", xdstest.ZoneLoad("z", n, 0))
}

func reporting(stats ...*endpointv3.ClusterStats) *lrsv3.LoadStatsRequest {
	return &lrsv3.LoadStatsRequest{ClusterStats: stats}
}

// TestLoadTerms: the terms of the control plane reach present and later clients, unchanged, once,
// and not before they are known.
func TestLoadTerms(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newLoadWorld(t)
		first := w.open(w.conn)
		o := w.outlet()
		if o.Key() != "test-cluster" {
			t.Fatalf("key %q", o.Key())
		}
		first.Quiet(t, short)
		asked := xdstest.LoadTerms(10*time.Second, "a", "b")
		asked.ReportEndpointGranularity = true
		asked.ProtoReflect().SetUnknown([]byte{0x98, 0x06, 0x01}) // field 99
		w.ask(o, asked)
		same := func(s *xdstest.LoadStream, want proto.Message) {
			t.Helper()
			if got := s.Terms(t); !proto.Equal(got, want) {
				t.Fatalf("terms %v, expected %v", got, want)
			}
		}
		same(first, asked)
		later := w.open(w.conn)
		same(later, asked)
		w.ask(o, proto.CloneOf(asked))
		first.Quiet(t, short)
		everything := xdstest.LoadTerms(time.Minute)
		w.ask(o, everything)
		same(first, everything)
		same(later, everything)
		_ = first.Report(xdstest.ClusterLoad("c", xdstest.ZoneLoad("z", 1, 0)))
		first.Quiet(t, short) // a report is not answered
	})
}

// TestLoadSums: B1: the reports of a key's clients are summed up, whatever Node later messages
// have; requests in progress count while their client is connected.
func TestLoadSums(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newLoadWorld(t)
		a, b := w.open(w.conn), w.open(w.conn)
		o := w.outlet()
		w.ask(o, xdstest.LoadTerms(time.Minute))
		a.Terms(t)
		_ = a.Report(xdstest.ClusterLoad("c", xdstest.ZoneLoad("y", 1, 1), xdstest.ZoneLoad("z", 2, 2)))
		_ = b.Report(xdstest.ClusterLoad("c", xdstest.ZoneLoad("z", 3, 3)))
		waitLoads(t, o, loads{"y": {1, 1}, "z": {5, 5}})
		_ = a.Report(xdstest.ClusterLoad("c", xdstest.ZoneLoad("z", 10, 4)))
		waitLoads(t, o, loads{"z": {10, 7}})
		b.Cancel()
		waitLoads(t, o, loads{"z": {0, 4}})
		a.CloseSend()
		loadRefused(t, a, codes.OK, "")
		waitLoads(t, o, loads{})

		other := w.dial()
		other.Node = xdstest.Node("somebody-else", "other-cluster")
		s := w.open(other)
		foreign := w.outlet()
		if foreign.Key() != "other-cluster" {
			t.Fatalf("key %q", foreign.Key())
		}
		w.ask(foreign, xdstest.LoadTerms(time.Minute))
		s.Terms(t)
		_ = s.Report(xdstest.ClusterLoad("c", xdstest.ZoneLoad("z", 8, 0)))
		waitLoads(t, foreign, loads{"z": {8, 0}})
		waitLoads(t, o, loads{})
	})
}

// TestLoadNode: B1: a client cannot change accounts by sending another Node.
func TestLoadNode(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newLoadWorld(t)
		a := w.conn.OpenLoad()
		_ = a.Send(&lrsv3.LoadStatsRequest{Node: w.conn.Node})
		o := w.outlet()
		report := reporting(issued(5))
		report.Node = xdstest.Node("somebody-else", "other-cluster")
		_ = a.Send(report)
		waitLoads(t, o, loads{"z": {5, 0}})
		if len(w.outlets) != 0 {
			t.Fatal("another node on a later message made another key")
		}
	})
}

// TestLoadRefusals: a client without a Node, without a matching rule, or with a malformed report,
// whether first or later, gets the reason, and no other client is affected.
func TestLoadRefusals(t *testing.T) {
	virtual(t, func(t *testing.T) {
		rules, err := aggregation.Compile([]aggregation.Rule{{Name: "prod", Match: `node.cluster != "dev"`, Key: "node.cluster"}}, aggregation.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := newLoadWorld(t, func(c *Config) {
			c.Rules = func() *aggregation.Rules { return rules }
			if c.Limits, err = limit.New(limit.Values{NodeSize: 1 << 10}, nil, nil); err != nil {
				t.Fatal(err)
			}
		})
		good := w.open(w.conn)
		o := w.outlet()
		node := xdstest.Node("n", "prod")
		hello := &lrsv3.LoadStatsRequest{Node: node}
		garbage := &lrsv3.LoadStatsRequest{}
		garbage.ProtoReflect().SetUnknown([]byte{0x0a, 0xff}) // a Node that is cut off
		for what, c := range map[string]struct {
			messages []*lrsv3.LoadStatsRequest
			code     codes.Code
			says     string
		}{
			"no node":        {[]*lrsv3.LoadStatsRequest{{}}, codes.InvalidArgument, "node id"},
			"no id":          {[]*lrsv3.LoadStatsRequest{{Node: &corev3.Node{Cluster: "prod"}}}, codes.InvalidArgument, "node id"},
			"no rule":        {[]*lrsv3.LoadStatsRequest{{Node: xdstest.Node("x", "dev")}}, codes.PermissionDenied, "no aggregation rule"},
			"garbage first":  {[]*lrsv3.LoadStatsRequest{garbage}, codes.InvalidArgument, "load report is malformed"},
			"garbage later":  {[]*lrsv3.LoadStatsRequest{hello, garbage}, codes.InvalidArgument, "load report is malformed"},
			"no cluster":     {[]*lrsv3.LoadStatsRequest{hello, reporting(issued(1), &endpointv3.ClusterStats{})}, codes.InvalidArgument, "cluster_stats[1] has no cluster_name"},
			"many parts":     {[]*lrsv3.LoadStatsRequest{{Node: node, ClusterStats: make([]*endpointv3.ClusterStats, maxLoadParts+1)}}, codes.ResourceExhausted, "parts"},
			"a giant":        {[]*lrsv3.LoadStatsRequest{{Node: xdstest.Node(strings.Repeat("x", 2000), "prod")}}, codes.ResourceExhausted, "limits.max_node_size"},
			"a giant's name": {[]*lrsv3.LoadStatsRequest{hello, reporting(xdstest.ClusterLoad(strings.Repeat("x", 5000)))}, codes.InvalidArgument, "cluster_name has 5000 bytes"},
		} {
			t.Log(what)
			s := w.dial().OpenLoad()
			for _, m := range c.messages {
				_ = s.Send(m)
			}
			loadRefused(t, s, c.code, c.says)
		}
		_ = good.Report(issued(5))
		waitLoads(t, o, loads{"z": {5, 0}})
	})
}

// TestLoadUnimplemented: if load reports are not accepted, the client gets that: without a control
// plane, or with one that refuses them before or after the client connects.
func TestLoadUnimplemented(t *testing.T) {
	virtual(t, func(t *testing.T) {
		loadRefused(t, newWorld(t).conn.OpenLoad(), codes.Unimplemented, "accepts no load reports")
		w := newLoadWorld(t)
		s := w.open(w.conn)
		o := w.outlet()
		o.Refuse(errors.New("the control plane has no idea"))
		loadRefused(t, s, codes.Unimplemented, "the control plane has no idea")
		loadRefused(t, w.open(w.conn), codes.Unimplemented, "the control plane has no idea")
		w.ask(o, xdstest.LoadTerms(time.Minute))
		w.open(w.conn).Terms(t)
	})
}

// TestLoadDrain: B42: a drain ends streams of load reports like all others, and refuses new ones.
func TestLoadDrain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newLoadWorld(t)
		var streams []*xdstest.LoadStream
		for range 5 {
			streams = append(streams, w.open(w.conn))
		}
		o := w.outlet()
		w.ask(o, xdstest.LoadTerms(time.Minute))
		for _, s := range streams {
			s.Terms(t)
			_ = s.Report(issued(1))
		}
		waitLoads(t, o, loads{"z": {5, 0}})
		config := w.world.open(true)
		config.Subscribe(cds)
		w.asked(cds, "*")
		if err := w.srv.Drain(t.Context(), short); err != nil {
			t.Fatalf("drain: %v", err)
		}
		for _, s := range streams {
			loadRefused(t, s, codes.Unavailable, "draining")
		}
		refusedWith(t, config, codes.Unavailable, "draining")
		loadRefused(t, w.open(w.conn), codes.Unavailable, "draining")
	})
}

// TestLoadSilentClient: a stream without a first message ends.
func TestLoadSilentClient(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newLoadWorld(t, func(c *Config) { c.FirstRequestTimeout = short })
		loadRefused(t, w.conn.OpenLoad(), codes.DeadlineExceeded, "first-request timeout")
		s := w.open(w.conn)
		s.Quiet(t, 2*short)
	})
}

// TestLoadSlowClient: K19: a client that does not read its terms does not delay others, and ends at
// the send deadline.
func TestLoadSlowClient(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newLoadWorld(t, func(c *Config) { c.SendTimeout = 2 * short })
		network := w.net.NewNetwork(t, w.addr)
		slow, quick := w.open(w.net.Client(t, network.Addr())), w.open(w.conn)
		o := w.outlet()
		w.ask(o, xdstest.LoadTerms(time.Hour))
		slow.Terms(t)
		quick.Terms(t)
		network.Stall(xdstest.ToClient)
		large := make([]string, 100_000)
		for i := range large {
			large[i] = fmt.Sprint("cluster-", i)
		}
		for i := range 3 { // the transport accepts one message of any size
			w.ask(o, xdstest.LoadTerms(time.Duration(i+1)*time.Minute, large...))
			if got := quick.Terms(t); len(got.GetClusters()) != len(large) {
				t.Fatalf("%d clusters", len(got.GetClusters()))
			}
		}
		xdstest.Eventually(t, "the end of the slow stream", func() bool {
			w.srv.mu.Lock()
			defer w.srv.mu.Unlock()
			return len(w.srv.loads) == 1
		})
		quick.Quiet(t, short)
	})
}

// TestLoadNothingLost: while clients report and reconnect in any order, the sums are taken; at the
// end they equal the reports.
func TestLoadNothingLost(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newLoadWorld(t)
		streams := make([]*xdstest.LoadStream, 8)
		for i := range streams {
			streams[i] = w.open(w.dial())
		}
		o := w.outlet()
		w.ask(o, xdstest.LoadTerms(time.Hour))
		reported, taken := loads{}, loads{}
		stop := make(chan struct{})
		var taking sync.WaitGroup
		taking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					taken.take(o)
				}
			}
		})
		leave := func(s *xdstest.LoadStream) {
			s.CloseSend()
			loadRefused(t, s, codes.OK, "") // all reports have arrived
		}
		for range 500 {
			i := rand.N(len(streams))
			if rand.N(10) == 0 {
				leave(streams[i])
				streams[i] = w.open(w.conn)
			}
			zone, n := fmt.Sprint("z", rand.N(3)), rand.N[uint64](10)+1
			reported[zone] = [2]uint64{reported[zone][0] + n, 0}
			_ = streams[i].Report(xdstest.ClusterLoad("c", xdstest.ZoneLoad(zone, n, 1)))
		}
		for _, s := range streams {
			leave(s)
		}
		close(stop)
		taking.Wait()
		xdstest.Eventually(t, "nothing in progress", func() bool {
			taken.take(o)
			for _, n := range taken {
				if n[1] > 0 {
					return false
				}
			}
			return true
		})
		if !maps.Equal(taken, reported) {
			t.Fatalf("taken %v, reported %v", taken, reported)
		}
	})
}

// TestTermsWhileAClientJoins: the control plane may send terms at the moment at which a stream
// joins the account of its key and has no part in it yet.
func TestTermsWhileAClientJoins(t *testing.T) {
	s := &loadStream{}
	s.news()
	if s.sending || s.ended {
		t.Error("a stream that has not joined yet sends something, or ends")
	}
}
