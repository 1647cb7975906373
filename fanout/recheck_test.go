package fanout

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/fanout/authz"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/load"
	"xdsrelay/relay/xdstest"
)

// guarded is a world whose clients have certificates that the test makes up.
type guarded struct {
	*world
	policy   atomic.Pointer[authorize.Policy]
	identity atomic.Pointer[string]    // of the next connection; "" for plaintext
	expires  atomic.Pointer[time.Time] // of its certificate
	revoked  atomic.Pointer[error]     // the current result for all certificates
}

// newGuarded makes a guarded world with rules; change may be nil.
func newGuarded(t *testing.T, rules []authorize.Rule, change func(*authz.Config, *Config)) *guarded {
	t.Helper()
	w := &guarded{}
	w.rule(t, rules...)
	cfg := authz.Config{Policy: w.policy.Load}
	loads, err := load.New(load.Config{Run: func(ctx context.Context, _ *load.Outlet) { <-ctx.Done() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loads.Close)
	w.world = newSilentWorld(t, func(c *Config) {
		c.RecheckInterval, c.Loads = 5*time.Minute, loads
		if change != nil {
			change(&cfg, c)
		}
		if c.Gate, err = authz.New(cfg); err != nil {
			t.Fatal(err)
		}
	})
	w.secure = func(raw net.Conn) (net.Conn, aggregation.Connection, error) {
		return raw, w.connection(), nil
	}
	w.listen()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.srv.RunRechecks(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *guarded) rule(t *testing.T, rules ...authorize.Rule) {
	t.Helper()
	p, err := authorize.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	w.policy.Store(p)
}

// connection is the result of the next connection's handshake.
func (w *guarded) connection() aggregation.Connection {
	id := w.identity.Load()
	if id == nil || *id == "" {
		return aggregation.Connection{}
	}
	uri, err := url.Parse(*id)
	if err != nil {
		w.t.Errorf("identity: %v", err)
	}
	cert := &x509.Certificate{URIs: []*url.URL{uri}, NotAfter: time.Now().Add(1000 * time.Hour)}
	if e := w.expires.Load(); e != nil {
		cert.NotAfter = *e
	}
	return aggregation.Connection{
		TLS: &credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}}},
		Recheck: func() error {
			if err := w.revoked.Load(); err != nil {
				return *err
			}
			if time.Now().After(cert.NotAfter) {
				return errors.New("expired")
			}
			return nil
		},
	}
}

// as returns a connection of a client with an identity.
func (w *guarded) as(identity string) *xdstest.Conn {
	w.t.Helper()
	w.identity.Store(&identity)
	c := w.dial()
	cc := c.ClientConn()
	cc.Connect()
	xdstest.Eventually(w.t, "the connection", func() bool { return cc.GetState().String() == "READY" })
	return c
}

const mine = `peer.spiffe_id == "spiffe://corp/" + node.cluster`

var own = authorize.Rule{Name: "own", Match: mine}

// TestClaims: a client gets what its proven identity allows; a client that only claims an identity
// is refused before its key exists, with the names of the rules, on every service (B1, K6).
func TestClaims(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newGuarded(t, []authorize.Rule{{Name: "old", Match: `node.user_agent_name == "old"`, Deny: true}, own}, nil)
		for _, identity := range []string{"spiffe://corp/another", ""} {
			c := w.as(identity)
			for _, delta := range []bool{false, true} {
				s := c.Open(xdstest.Variant{Delta: delta})
				s.Subscribe(cds)
				if st := s.ExpectClosed(t); st.Code() != codes.PermissionDenied || !strings.Contains(st.Message(), "tried: old, own") {
					t.Errorf("identity %q: %v", identity, st)
				}
				one := c.Open(xdstest.Variant{Delta: delta, Service: cds})
				one.Subscribe(cds)
				if st := one.ExpectClosed(t); st.Code() != codes.PermissionDenied {
					t.Errorf("identity %q, on the service of one type: %v", identity, st)
				}
			}
			l := c.OpenLoad()
			_ = l.Report()
			if st := l.ExpectClosed(t); st.Code() != codes.PermissionDenied {
				t.Errorf("identity %q, load reports: %v", identity, st)
			}
		}
		denied := w.as("spiffe://corp/test-cluster").Open(xdstest.Variant{})
		denied.Send(&discoveryv3.DiscoveryRequest{TypeUrl: cds, Node: &corev3.Node{Id: "x", Cluster: "test-cluster", UserAgentName: "old"}})
		if st := denied.ExpectClosed(t); st.Code() != codes.PermissionDenied || !strings.Contains(st.Message(), "rule old ") {
			t.Errorf("denied: %v", st)
		}
		if groups := w.cache.Groups(); len(groups) > 0 {
			t.Fatalf("a refused client made the key %q", groups[0].Key)
		}
		nobody := w.as("spiffe://corp/test-cluster").Open(xdstest.Variant{})
		nobody.Send(&discoveryv3.DiscoveryRequest{TypeUrl: cds, Node: &corev3.Node{Cluster: "test-cluster"}})
		if st := nobody.ExpectClosed(t); st.Code() != codes.InvalidArgument {
			t.Errorf("without an id: %v", st)
		}

		s := w.as("spiffe://corp/test-cluster").Open(xdstest.Variant{})
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("1", cds, cluster("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
	})
}

// TestLaterNodeCountsForNothing: the first request says which client it is. Later Nodes change
// neither its key nor what is authorized (B1).
func TestLaterNodeCountsForNothing(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, delta := range []bool{false, true} {
			w := newGuarded(t, []authorize.Rule{own}, nil)
			s := w.as("spiffe://corp/test-cluster").Open(xdstest.Variant{Delta: delta})
			s.Subscribe(cds)
			w.asked(cds, "*")
			w.serve("1", cds, cluster("a", 1))
			s.Ack(has(t, s.Recv(t), "a"))
			forged := &corev3.Node{Id: "another", Cluster: "another"}
			if delta {
				s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: forged, TypeUrl: eds, ResourceNamesSubscribe: []string{"x"}})
			} else {
				s.Send(&discoveryv3.DiscoveryRequest{Node: forged, TypeUrl: eds, ResourceNames: []string{"x"}})
			}
			w.asked(eds, "x") // by its key
			w.srv.Recheck()
			s.Quiet(t, time.Hour)
			if groups := w.cache.Groups(); len(groups) != 1 || groups[0].Key != "test-cluster" {
				t.Fatalf("%d keys, the first %q", len(groups), groups[0].Key)
			}
			if i := w.info(cds); i.TypeURL != cds || w.srv.Streams()[0].NodeID != "test-client" {
				t.Fatalf("the client is %+v", w.srv.Streams()[0])
			}
		}
	})
}

// TestRulesChange: streams whose clients the rules in force no longer allow end with the rule's
// name, and all others continue.
func TestRulesChange(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newGuarded(t, []authorize.Rule{own, {Name: "guests", Match: `peer.spiffe_id.startsWith("spiffe://guests/")`}}, nil)
		one := w.as("spiffe://corp/test-cluster").Open(xdstest.Variant{Delta: true})
		one.Subscribe(cds)
		external := w.as("spiffe://guests/a")
		two := external.Open(xdstest.Variant{})
		two.Subscribe(cds)
		loads := external.OpenLoad()
		_ = loads.Report()
		w.asked(cds, "*")
		w.serve("1", cds, cluster("a", 1))
		one.Ack(has(t, one.Recv(t), "a"))
		two.Ack(has(t, two.Recv(t), "a"))
		w.srv.Recheck()
		two.Quiet(t, time.Hour)

		w.rule(t, own)
		two.Quiet(t, time.Millisecond) // less than the time between two checks for due streams
		w.srv.Recheck()
		if st := two.ExpectClosed(t); st.Code() != codes.PermissionDenied || !strings.Contains(st.Message(), "tried: own") {
			t.Errorf("an external client: %v", st)
		}
		if st := loads.ExpectClosed(t); st.Code() != codes.PermissionDenied {
			t.Errorf("the load reports of an external client: %v", st)
		}
		one.Quiet(t, time.Hour)
		// Without a signal it takes at most an interval and a half.
		w.rule(t, authorize.Rule{Name: "nobody", Match: `listener == "none"`})
		if st := one.End(7 * time.Minute); st.Code() != codes.PermissionDenied {
			t.Errorf("after the interval: %v", st)
		}
	})
}

// TestRulesChangeMeanwhile: a client that was admitted by rules that changed at that moment is
// checked by the new ones, although its stream was not registered yet when all were checked.
func TestRulesChangeMeanwhile(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var w *guarded
		var once sync.Once
		w = newGuarded(t, authorize.Any(), func(c *authz.Config, _ *Config) {
			c.Policy = func() *authorize.Policy {
				was := w.policy.Load()
				once.Do(func() {
					w.rule(t, own)
					w.srv.Recheck()
					synctest.Wait() // all streams have been checked
				})
				return was
			}
		})
		s := w.as("spiffe://corp/other").Open(xdstest.Variant{Delta: true})
		s.Subscribe(cds)
		if st := s.End(time.Minute); st.Code() != codes.PermissionDenied {
			t.Errorf("%v", st)
		}
	})
}

// TestWhatRulesReadIsKept: a Node whose metadata is too large to be kept is checked as well, by the
// fields that the rules read. If new rules need other fields, the client must reconnect.
func TestWhatRulesReadIsKept(t *testing.T) {
	virtual(t, func(t *testing.T) {
		team := authorize.Rule{Name: "team", Match: `peer.spiffe_id == "spiffe://corp/" + node.metadata.team.name && node.extensions.exists(e, e.name == "x")`}
		w := newGuarded(t, []authorize.Rule{team}, nil)
		s := w.as("spiffe://corp/core").Open(xdstest.Variant{})
		md, err := structpb.NewStruct(map[string]any{"team": map[string]any{"name": "core", "size": 3}, "large": strings.Repeat("x", 2*maxNode)})
		if err != nil {
			t.Fatal(err)
		}
		s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: cds, Node: &corev3.Node{Id: "n", Cluster: "test-cluster", Metadata: md, Extensions: []*corev3.Extension{{Name: "x"}, {Name: "y"}}}})
		w.asked(cds, "*")
		w.srv.Recheck()
		s.Quiet(t, time.Hour)
		for st := range w.srv.streams {
			if len(st.by.claim) > 100 || st.by.claim == "" || len(st.node) > 100 {
				t.Errorf("%d and %d bytes are kept", len(st.by.claim), len(st.node))
			}
		}
		w.rule(t, authorize.Rule{Match: `peer.spiffe_id == "spiffe://corp/" + node.metadata.team.name && node.id == "n"`})
		w.srv.Recheck()
		s.Quiet(t, time.Minute)
		w.rule(t, authorize.Rule{Match: `peer.authenticated && node.metadata.team.size > 2`})
		w.srv.Recheck()
		if st := s.ExpectClosed(t); st.Code() != codes.Unavailable || !strings.Contains(st.Message(), "reconnect") {
			t.Errorf("%v", st)
		}
	})
}

// TestLoadStreamsKeepWhatRulesRead: the same for streams of load reports, which keep nothing else
// of the Node.
func TestLoadStreamsKeepWhatRulesRead(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newGuarded(t, []authorize.Rule{own}, nil)
		s := w.as("spiffe://corp/test-cluster").OpenLoad()
		if err := s.Send(&lrsv3.LoadStatsRequest{Node: xdstest.Node("a", "test-cluster")}); err != nil {
			t.Fatal(err)
		}
		w.srv.Recheck()
		s.Quiet(t, time.Hour)
		w.rule(t, authorize.Rule{Match: mine + ` && node.id == "a"`})
		w.srv.Recheck()
		if st := s.ExpectClosed(t); st.Code() != codes.Unavailable {
			t.Errorf("%v", st)
		}
	})
}

// TestCertificateExpires: a stream ends within seconds after its client's certificate expires, with
// or without rules, unless KeepUntrusted is set.
func TestCertificateExpires(t *testing.T) {
	for _, keep := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			w := newGuarded(t, nil, func(c *authz.Config, _ *Config) { c.KeepUntrusted = keep })
			soon := time.Now().Add(90 * time.Second)
			w.expires.Store(&soon)
			c := w.as("spiffe://corp/a")
			s := c.Open(xdstest.Variant{Delta: true})
			s.Subscribe(cds)
			w.asked(cds, "*")
			s.Quiet(t, time.Until(soon)-time.Second)
			if keep {
				s.Quiet(t, time.Hour)
			} else if st := s.End(10 * time.Second); st.Code() != codes.Unauthenticated || !strings.Contains(st.Message(), "expired") {
				t.Errorf("%v", st)
			}
			// No new stream is admitted on the same connection.
			again := c.Open(xdstest.Variant{})
			again.Subscribe(cds)
			if st := again.ExpectClosed(t); st.Code() != codes.Unauthenticated {
				t.Errorf("a new stream: %v", st)
			}
		})
	}
}

// TestTrustIsWithdrawn: the streams of clients that are no longer trusted end at the signal, and
// without one after the interval.
func TestTrustIsWithdrawn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newGuarded(t, authorize.Any(), nil)
		s := w.as("spiffe://corp/a").Open(xdstest.Variant{Delta: true})
		s.Subscribe(cds)
		plain := w.as("").Open(xdstest.Variant{Delta: true})
		plain.Subscribe(cds)
		w.asked(cds, "*")
		s.Quiet(t, time.Hour)
		gone := errors.New("its authority is not trusted")
		w.revoked.Store(&gone)
		w.srv.Recheck()
		if st := s.ExpectClosed(t); st.Code() != codes.Unauthenticated || !strings.Contains(st.Message(), "authority") {
			t.Errorf("%v", st)
		}
		w.revoked.Store(nil)
		s = w.as("spiffe://corp/a").Open(xdstest.Variant{Delta: true})
		s.Subscribe(cds)
		s.Quiet(t, time.Second)
		w.revoked.Store(&gone)
		if st := s.End(7 * time.Minute); st.Code() != codes.Unauthenticated {
			t.Errorf("after the interval: %v", st)
		}
		plain.Quiet(t, time.Minute)
	})
}
