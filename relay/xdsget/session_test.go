package xdsget_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdsclient"
	"xdsrelay/relay/xdsget"
	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ways are all ways to connect, by name.
var ways = map[string]xdsget.Config{
	"delta": {Delta: true}, "sotw": {}, "delta per type": {Delta: true, PerType: true}, "sotw per type": {PerType: true},
}

// everyWay runs a test in virtual time on a network of its own, once for each way to connect.
func everyWay(t *testing.T, f func(t *testing.T, m *xdstest.Memory, cfg xdsget.Config)) {
	t.Helper()
	for name, cfg := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := xdstest.NewMemory()
				cfg.Node, cfg.Want, cfg.References = &corev3.Node{Id: "n", Cluster: "c"}, xdsget.EnvoyRefs(), true
				cfg.DialOptions = []grpc.DialOption{m.Option()}
				f(t, m, cfg)
			})
		})
	}
}

func start(t *testing.T, cfg xdsget.Config) *xdsget.Session {
	t.Helper()
	s, err := xdsget.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// wait waits for all resources.
func wait(t *testing.T, s *xdsget.Session, most time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	return s.Wait(ctx)
}

// lines are the resources of a state, each as "Type/name", with its problem if there is one.
func lines(st xdsget.State) (all []string) {
	for _, r := range st.Resources {
		line := xdsclient.ShortType(r.URL) + "/" + r.Name
		if r.Condition != xdsget.Accepted {
			line += " " + string(r.Condition) + ": " + r.Problem
		}
		all = append(all, line)
	}
	return all
}

func check(t *testing.T, s *xdsget.Session, want ...string) {
	t.Helper()
	if got := lines(s.State(false)); !slices.Equal(got, want) {
		t.Errorf("the client has\n%q, expected\n%q", got, want)
	}
}

// secured is a listener whose certificate is a secret of the same server.
func secured(l *listenerv3.Listener, secret string) *listenerv3.Listener {
	l.FilterChains[0].TransportSocket = &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: xdstest.Any(&tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{
				{Name: secret, SdsConfig: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}},
				{Name: "of-another-server", SdsConfig: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{}}},
			},
		}}),
	}}
	return l
}

// content is what an Envoy gets: clusters, endpoints, listeners, routes and a secret.
func content() []proto.Message {
	return []proto.Message{
		xdstest.Cluster("a", time.Second), xdstest.ClusterWithService("b", "b-eds", time.Second),
		xdstest.Endpoints("a", "127.0.0.1:1"), xdstest.Endpoints("b-eds", "127.0.0.1:2"),
		secured(xdstest.Listener("l", "127.0.0.1:80", "r"), "cert"), xdstest.Route("r", "a"), xdstest.Secret("cert", "chain", "TOPSECRET"),
		xdstest.Endpoints("unrelated", "127.0.0.1:3"),
	}
}

// TestEnvoy: without anything else, the client gets what an Envoy gets in every variant, and follows
// what changes.
func TestEnvoy(t *testing.T) {
	everyWay(t, func(t *testing.T, m *xdstest.Memory, cfg xdsget.Config) {
		o := m.NewStateOrigin(t, nil)
		o.Set("", content()...)
		cfg.Addr = o.Addr()
		s := start(t, cfg)
		if err := wait(t, s, time.Minute); err != nil {
			t.Fatal(err)
		}
		check(t, s, "Cluster/a", "Cluster/b", "ClusterLoadAssignment/a", "ClusterLoadAssignment/b-eds", "Listener/l", "RouteConfiguration/r", "Secret/cert")
		st := s.State(true)
		if !st.Complete || st.Error != "" || len(st.Violations) > 0 {
			t.Errorf("the state is %+v", st)
		}
		for _, r := range st.Resources {
			if r.Version == "" || r.Bytes == 0 || len(r.Resource) == 0 || strings.Contains(string(r.Resource), "TOPSECRET") {
				t.Errorf("%s: %+v: %s", r.Name, r, r.Resource)
			}
		}
		o.Update("", func(c *xdstest.Change) {
			c.Remove(xdsclient.ClusterType, "b")
			c.Set(xdstest.Listener("l", "127.0.0.1:80", "r2"), xdstest.Route("r2", "a"))
		})
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		check(t, s, "Cluster/a", "ClusterLoadAssignment/a", "Listener/l", "RouteConfiguration/r2")
		if nacks := o.Counts().Nacks; nacks > 0 {
			t.Errorf("%d responses were rejected", nacks)
		}
	})
}

// TestGRPC: from a listener by name, the references lead to what a gRPC client gets.
func TestGRPC(t *testing.T) {
	everyWay(t, func(t *testing.T, m *xdstest.Memory, cfg xdsget.Config) {
		o := m.NewStateOrigin(t, nil)
		o.Set("", append(content(), xdstest.APIListener("svc", "svc-routes"), xdstest.Route("svc-routes", "b"))...)
		cfg.Addr, cfg.Want = o.Addr(), []xdsget.Ref{{TypeURL: xdsclient.ListenerType, Name: "svc"}}
		s := start(t, cfg)
		if err := wait(t, s, time.Minute); err != nil {
			t.Fatal(err)
		}
		check(t, s, "Cluster/b", "ClusterLoadAssignment/b-eds", "Listener/svc", "RouteConfiguration/svc-routes")
	})
}

// TestMissing: a name without a resource is missing: at once if the server reports it, at the end of
// the time otherwise.
func TestMissing(t *testing.T) {
	everyWay(t, func(t *testing.T, m *xdstest.Memory, cfg xdsget.Config) {
		o := m.NewStateOrigin(t, nil)
		o.Set("", xdstest.Cluster("a", time.Second), xdstest.Cluster("gone", time.Second), xdstest.Endpoints("a", "127.0.0.1:1"), xdstest.Endpoints("gone", "127.0.0.1:1"))
		cfg.Addr = o.Addr()
		cfg.Want = []xdsget.Ref{{TypeURL: xdsclient.ClusterType, Name: "a"}, {TypeURL: xdsclient.ClusterType, Name: "gone"}, {TypeURL: xdsclient.ClusterType, Name: "never"}}
		s := start(t, cfg)
		began := time.Now()
		if err := wait(t, s, 10*time.Second); err != nil {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		o.Remove("", xdsclient.ClusterType, "gone")
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		check(t, s, "Cluster/a", "Cluster/gone missing: does not exist", "Cluster/never missing: does not exist", "ClusterLoadAssignment/a")
		if s.State(false).Complete {
			t.Error("the state is complete")
		}
		o.Set("", xdstest.Cluster("never", time.Second), xdstest.Endpoints("never", "127.0.0.1:1"))
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		check(t, s, "Cluster/a", "Cluster/gone missing: does not exist", "Cluster/never", "ClusterLoadAssignment/a", "ClusterLoadAssignment/never")
	})
}

// TestSilence: a SotW server need not answer for a name that does not exist.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := xdstest.NewMemory()
		o := m.NewOrigin(t)
		s := start(t, xdsget.Config{
			Addr: o.Addr(), Node: &corev3.Node{Id: "n"}, Want: []xdsget.Ref{{TypeURL: xdsclient.EndpointType, Name: "a"}, {TypeURL: xdsclient.EndpointType, Name: "b"}},
			DialOptions: []grpc.DialOption{m.Option()},
		})
		st := o.NextStream(t)
		st.NextRequest(t)
		if err := wait(t, s, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		check(t, s, "ClusterLoadAssignment/a missing: no response", "ClusterLoadAssignment/b missing: no response")
		st.Respond(t, xdsclient.EndpointType, "1", xdstest.Endpoints("a", "127.0.0.1:1"))
		if err := wait(t, s, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		check(t, s, "ClusterLoadAssignment/a", "ClusterLoadAssignment/b missing: not in any response")
	})
}

// TestNack: responses of a type are rejected on demand, and others are not.
func TestNack(t *testing.T) {
	everyWay(t, func(t *testing.T, m *xdstest.Memory, cfg xdsget.Config) {
		o := m.NewStateOrigin(t, nil)
		o.Set("", content()...)
		cfg.Addr, cfg.Nack = o.Addr(), map[string]string{xdsclient.ClusterType: "on demand"}
		var log notes
		cfg.Notify = log.add
		s := start(t, cfg)
		if err := wait(t, s, time.Minute); err != nil {
			t.Fatal(err)
		}
		check(t, s, "Cluster/a rejected: on demand", "Cluster/b rejected: on demand", "Listener/l", "RouteConfiguration/r", "Secret/cert")
		synctest.Wait()
		if n := o.Counts().Nacks; n != 1 {
			t.Errorf("the server got %d NACKs", n)
		}
		if st := s.State(false); st.Complete || st.Types[0].Reason != "on demand" || st.Types[0].Rejected != 2 {
			t.Errorf("the state is %+v", st)
		}
		if !slices.Contains(log.lines(), "Cluster rejected: on demand") {
			t.Errorf("the events are %q", log.lines())
		}
	})
}

// TestUndecodable: a resource that cannot be decoded is rejected, and the client keeps the others.
func TestUndecodable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := xdstest.NewMemory()
		o := m.NewOrigin(t)
		s := start(t, xdsget.Config{
			Addr: o.Addr(), Delta: true, Node: &corev3.Node{Id: "n"}, Want: []xdsget.Ref{{TypeURL: xdsclient.ClusterType, Name: "*"}}, DialOptions: []grpc.DialOption{m.Option()},
		})
		st := o.NextStream(t)
		st.NextRequest(t)
		bad := xdstest.Any(xdstest.Cluster("bad", time.Second))
		bad.Value = append(bad.Value, 0x22, 1, 0xff) // connect_timeout
		st.Respond(t, xdsclient.ClusterType, "1", xdstest.Cluster("good", time.Second), bad)
		if nack := st.NextRequest(t).Error.GetMessage(); !strings.HasPrefix(nack, "bad: the resource cannot be decoded: ") {
			t.Errorf("the NACK is %q", nack)
		}
		if err := wait(t, s, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := lines(s.State(true)); len(got) != 2 || !strings.HasPrefix(got[0], "Cluster/bad rejected: the resource cannot be decoded") || got[1] != "Cluster/good" {
			t.Errorf("the client has %q", got)
		}
	})
}

// TestBadConfig: what cannot work is an error of Start.
func TestBadConfig(t *testing.T) {
	for want, cfg := range map[string]xdsget.Config{
		"expected at least one type":     {Addr: "a:1", Node: &corev3.Node{}},
		"a client needs a node":          {Addr: "a:1", Want: xdsget.EnvoyRefs()},
		"VirtualHost has no service":     {Addr: "a:1", Node: &corev3.Node{}, PerType: true, Want: []xdsget.Ref{{TypeURL: xdsclient.VirtualHostType, Name: "x"}}},
		"RateLimitConfig has no service": {Addr: "a:1", Node: &corev3.Node{}, PerType: true, Want: []xdsget.Ref{{TypeURL: xdsclient.ClusterType, Name: "*"}, {TypeURL: xdsclient.RateLimitConfigType, Name: "x"}}},
	} {
		s, err := xdsget.Start(cfg)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, expected %q", err, want)
		}
	}
}

// TestControlPlane: a real go-control-plane that answers SotW clients only once they have named all
// endpoints of a snapshot sends everything.
func TestControlPlane(t *testing.T) {
	everyWay(t, func(t *testing.T, m *xdstest.Memory, cfg xdsget.Config) {
		cp := m.NewControlPlane(t, nil)
		cp.SetSnapshot(t, "c", "v1", content()[:7]...)
		cfg.Addr = cp.Addr()
		s := start(t, cfg)
		if err := wait(t, s, time.Minute); err != nil {
			t.Fatalf("%v: %q", err, lines(s.State(false)))
		}
		st := s.State(false)
		if len(st.Resources) != 7 || !st.Complete || len(st.Violations) > 0 {
			t.Errorf("the state is %+v", st)
		}
		if !cfg.Delta && st.Resources[0].Version != "v1" {
			t.Errorf("the version is %q", st.Resources[0].Version)
		}
	})
}

// TestMany: a large set arrives whole, and following it takes time in proportion.
func TestMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := xdstest.NewMemory()
		o := m.NewStateOrigin(t, nil)
		var all []proto.Message
		for i := range 2000 {
			name := fmt.Sprint("c", i)
			all = append(all, xdstest.Cluster(name, time.Second), xdstest.Endpoints(name, "127.0.0.1:1"))
		}
		o.Set("", all...)
		s := start(t, xdsget.Config{
			Addr: o.Addr(), Delta: true, Node: &corev3.Node{Id: "n"}, Want: []xdsget.Ref{{TypeURL: xdsclient.ClusterType, Name: "*"}}, References: true,
			DialOptions: []grpc.DialOption{m.Option()},
		})
		if err := wait(t, s, time.Minute); err != nil {
			t.Fatal(err)
		}
		if n := len(s.State(false).Resources); n != 4000 {
			t.Errorf("the client has %d resources", n)
		}
	})
}
