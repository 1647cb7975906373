package relay_test

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// every is how often the reports of these tests are due.
const every = 100 * time.Millisecond

// originConfig is a configuration for a control plane that may come and go.
func originConfig(addr string) *config.Config {
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{addr}
	cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max = 20*time.Millisecond, 100*time.Millisecond
	return cfg
}

// issuedTo adds up what was issued to zone z until it is as expected.
func issuedTo(t *testing.T, st *xdstest.LoadOriginStream, want uint64) {
	t.Helper()
	for got := uint64(0); got != want; {
		for _, c := range st.Next(t).GetClusterStats() {
			for _, l := range c.GetUpstreamLocalityStats() {
				got += l.GetTotalIssuedRequests()
			}
		}
		if got > want {
			t.Fatalf("%d requests, expected %d", got, want)
		}
	}
}

// TestLoadReports: what the clients of a key report goes to the control plane as
// one report, also across its absence and in the hour of the node's end; other
// keys have streams of their own (K4, B42).
func TestLoadReports(t *testing.T) {
	o := xdstest.NewOrigin(t)
	l := o.ServeLoad()
	n := start(t, originConfig(o.Addr()))
	open := func(key string) *xdstest.LoadStream {
		conn := xdstest.Dial(t, n.Addr())
		conn.Node = xdstest.Node("client", key)
		s := conn.OpenLoad()
		_ = s.Report()
		return s
	}
	report := func(s *xdstest.LoadStream, n uint64) {
		_ = s.Report(xdstest.ClusterLoad("c", xdstest.ZoneLoad("z", n, 0)))
	}
	a, b := open("k"), open("k")
	st := l.NextStream(t)
	if node := st.Next(t).GetNode(); node.GetCluster() != "k" || node.GetId() == "client" {
		t.Fatalf("node %v", node)
	}
	st.Ask(t, xdstest.LoadTerms(every))
	a.Terms(t)
	b.Terms(t)
	report(a, 1)
	report(b, 2)
	issuedTo(t, st, 3)
	o.Stop()
	report(a, 4)
	later := open("k")
	later.Terms(t)
	report(later, 8)
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	st = l.NextStream(t)
	st.Ask(t, xdstest.LoadTerms(every))
	issuedTo(t, st, 12)

	other := open("other")
	foreign := l.NextStream(t)
	foreign.Ask(t, xdstest.LoadTerms(time.Hour))
	other.Terms(t)
	report(other, 16)
	other.CloseSend()
	other.ExpectClosed(t)
	if opened := l.Opened(); opened != 3 {
		t.Errorf("%d streams, expected two and one after the outage", opened)
	}
	n.stop()
	if s := a.ExpectClosed(t); s.Code() != codes.Unavailable {
		t.Errorf("the client's stream ended %v", s)
	}
	issuedTo(t, foreign, 16)
	foreign.WaitClosed(t)
}

// TestNobodyTakesLoadReports: with a directory, or with a control plane that does
// not know the service, clients are told so.
func TestNobodyTakesLoadReports(t *testing.T) {
	directory := testConfig()
	directory.Upstream.Directory = t.TempDir()
	for name, cfg := range map[string]*config.Config{
		"directory": directory, "control plane": originConfig(xdstest.NewControlPlane(t, nil).Addr()),
	} {
		t.Run(name, func(t *testing.T) {
			s := xdstest.Dial(t, start(t, cfg).Addr()).OpenLoad()
			_ = s.Report()
			if end := s.ExpectClosed(t); end.Code() != codes.Unimplemented {
				t.Fatalf("ended %v", end)
			}
		})
	}
}

// TestRealClientReportsLoad: grpc-go's own xDS client, told by its cluster to
// report to where its configuration comes from, reports its calls through the
// relay.
func TestRealClientReportsLoad(t *testing.T) {
	backend := xdstest.NewBackend(t, "b")
	o := xdstest.NewStateOrigin(t, nil)
	l := o.ServeLoad()
	for _, m := range xdstest.GRPCService("svc", backend.Addr()) {
		if c, ok := m.(*clusterv3.Cluster); ok {
			c.LrsServer = &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Self{Self: &corev3.SelfConfigSource{}}}
		}
		o.Set("", m)
	}
	addr := start(t, originConfig(o.Addr())).Addr()
	clients := []*caller{newCaller(t, addr, "c1"), newCaller(t, addr, "c2")}
	st := l.NextStream(t)
	st.Next(t)
	st.Ask(t, xdstest.LoadTerms(every))
	for _, c := range clients {
		c.reaches(t, backend)
	}
	calls := func() (n uint64) {
		for _, c := range clients {
			n += uint64(c.calls.Load())
		}
		return n
	}
	// What is reported grows with the calls, and comes from the right place.
	var reported uint64
	for reported < 50 {
		for _, c := range st.Next(t).GetClusterStats() {
			if c.GetClusterName() != "svc-cluster" || c.GetClusterServiceName() != "svc-endpoints" {
				t.Fatalf("report of cluster %q, service %q", c.GetClusterName(), c.GetClusterServiceName())
			}
			for _, l := range c.GetUpstreamLocalityStats() {
				if l.GetLocality().GetZone() != "test-zone" {
					t.Fatalf("locality %v", l.GetLocality())
				}
				reported += l.GetTotalSuccessfulRequests()
			}
		}
		if most := calls() + uint64(len(clients)); reported > most {
			t.Fatalf("%d calls reported, there were at most %d", reported, most)
		}
	}
	if l.Opened() != 1 {
		t.Errorf("%d streams for one key", l.Opened())
	}
}
