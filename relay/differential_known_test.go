package relay_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay"
	"xdsrelay/relay/xdstest"
)

// listed reads the words under which relay/conformance/differences.txt lists
// differences.
func listed(t *testing.T) (words []string) {
	t.Helper()
	text, err := os.ReadFile("conformance/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^== (\S+) `).FindAllStringSubmatch(string(text), -1) {
		words = append(words, m[1])
	}
	return words
}

// known is a difference that is listed: a short conversation that goes one way
// with go-control-plane and another one with the relay.
type known struct {
	cache string // "snapshot", "ads" or "linear"
	delta bool
	// talk fails the test unless the server keeps the rule, or breaks it, as
	// keeps says.
	talk func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool)
}

// knownTalk is what such a conversation needs beside its stream.
type knownTalk struct {
	set    func(resources ...proto.Message) // all that there is
	remove func(typeURL, name string)
}

// TestKnownDifferences: each difference from go-control-plane that is listed
// exists, and there the relay keeps the rule (B1, B10, B14, B16, B19, B21, B22,
// B23, B25, B32, B34, B35).
func TestKnownDifferences(t *testing.T) {
	for _, word := range listed(t) {
		if _, ok := knownDifferences[word]; !ok {
			t.Errorf("no test shows what is listed as %q", word)
		}
	}
	for word, d := range knownDifferences {
		if !slices.Contains(listed(t), word) {
			t.Errorf("%q is not listed", word)
		}
		for _, relayed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/relayed=%t", word, relayed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { testKnownDifference(t, d, relayed) })
			})
		}
	}
}

func testKnownDifference(t *testing.T, d known, relayed bool) {
	network := xdstest.NewMemory()
	cp, k := newKnownTalk(t, network, d.cache)
	addr := cp.Addr()
	if relayed {
		cfg := testConfig()
		cfg.Admin.Address = ""
		cfg.Upstream.Addresses, cfg.Upstream.ResourceTimeout = []string{addr}, 200*time.Millisecond
		addr = startWith(t, cfg, relay.Options{Version: "v-test", Listen: network.Listen, Dial: network.Dial}).Addr()
	}
	conn := network.Client(t, addr)
	conn.Node = xdstest.Node("client", differentialKey)
	d.talk(t, k, conn.Open(xdstest.Variant{Delta: d.delta}), relayed)
}

func newKnownTalk(t *testing.T, network *xdstest.Memory, cache string) (cp *xdstest.ControlPlane, k *knownTalk) {
	t.Helper()
	if cache == "linear" {
		cp = network.NewLinearControlPlane(t)
		return cp, &knownTalk{
			set:    func(rs ...proto.Message) { cp.SetLinear(t, rs...) },
			remove: func(u, n string) { cp.RemoveLinear(t, u, n) },
		}
	}
	cp = network.NewLenientControlPlane(t, nil)
	if cache == "ads" {
		cp = network.NewControlPlane(t, nil)
	}
	version := 0
	cp.SetSnapshot(t, "another-key", "1", xdstest.Cluster("secret", time.Second))
	return cp, &knownTalk{set: func(rs ...proto.Message) {
		version++
		cp.SetSnapshot(t, differentialKey, fmt.Sprint(version), rs...)
	}}
}

// short is a quiet window that outlasts the time after which the relay takes
// silence for absence.
const shortQuiet = 300 * time.Millisecond

var (
	clusterAt  = func(name string, v int) proto.Message { return xdstest.Synthetic(xdstest.ClusterType, name, v) }
	endpointAt = func(name string, v int) proto.Message { return xdstest.Synthetic(xdstest.EndpointType, name, v) }
)

// gets fails the test unless the next frame of a type holds just the names.
func gets(t *testing.T, s *xdstest.Stream, typeURL string, names ...string) *xdstest.Frame {
	t.Helper()
	f := s.RecvType(t, typeURL)
	if !slices.Equal(f.Names(), names) || len(f.Removed) > 0 {
		t.Fatalf("expected just %v: %s", names, f)
	}
	return f
}

var knownDifferences = map[string]known{
	"rejected-again": {"snapshot", false, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(clusterAt("a", 1))
		s.Subscribe(xdstest.ClusterType)
		f := gets(t, s, xdstest.ClusterType, "a")
		if keeps {
			s.Nack(f, "no")
			s.Quiet(t, shortQuiet)
			return
		}
		for range 50 {
			s.Nack(f, "no")
			f = gets(t, s, xdstest.ClusterType, "a")
		}
	}},
	"rejected-forgotten": {"snapshot", true, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(clusterAt("a", 1), clusterAt("b", 1))
		s.Subscribe(xdstest.ClusterType)
		s.Ack(gets(t, s, xdstest.ClusterType, "a", "b"))
		k.set(clusterAt("a", 2), clusterAt("b", 2))
		s.Nack(gets(t, s, xdstest.ClusterType, "a", "b"), "no")
		k.set(clusterAt("a", 2), clusterAt("b", 3))
		if keeps {
			gets(t, s, xdstest.ClusterType, "a", "b")
		} else {
			gets(t, s, xdstest.ClusterType, "b")
		}
	}},
	"absence-untold": {"snapshot", true, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(endpointAt("a", 1))
		s.Subscribe(xdstest.EndpointType, "a", "z")
		s.Ack(gets(t, s, xdstest.EndpointType, "a"))
		if !keeps {
			s.Quiet(t, shortQuiet)
		} else if f := s.Recv(t); !slices.Equal(f.Removed, []string{"z"}) {
			t.Fatalf("expected the removal of z: %s", f)
		}
	}},
	"again": {"snapshot", true, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(clusterAt("a", 1), clusterAt("b", 1))
		s.Subscribe(xdstest.ClusterType, "*", "c")
		s.Ack(gets(t, s, xdstest.ClusterType, "a", "b"))
		if keeps {
			s.Ack(s.Recv(t)) // c does not exist
		}
		s.Unsubscribe(xdstest.ClusterType, "*", "c")
		s.Subscribe(xdstest.ClusterType, "a")
		if keeps {
			s.Ack(gets(t, s, xdstest.ClusterType, "a"))
		} else {
			s.Quiet(t, shortQuiet)
		}
		s.Subscribe(xdstest.ClusterType, "a")
		if keeps {
			gets(t, s, xdstest.ClusterType, "a")
		} else {
			s.Quiet(t, shortQuiet)
		}
	}},
	"legacy-stays": {"snapshot", true, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(clusterAt("a", 1))
		s.Subscribe(xdstest.ClusterType)
		s.Ack(gets(t, s, xdstest.ClusterType, "a"))
		s.Unsubscribe(xdstest.ClusterType, "*")
		if keeps {
			s.Quiet(t, shortQuiet)
		} else {
			s.Ack(gets(t, s, xdstest.ClusterType))
		}
		k.set(clusterAt("a", 2))
		if keeps {
			s.Quiet(t, shortQuiet)
		} else {
			gets(t, s, xdstest.ClusterType, "a")
		}
	}},
	"forgotten-nonce": {"snapshot", false, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(endpointAt("a", 1), endpointAt("b", 1))
		s.Subscribe(xdstest.EndpointType, "a")
		gets(t, s, xdstest.EndpointType, "a") // and has lost interest before it answers
		s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: xdstest.EndpointType, ResourceNames: []string{"b"}})
		if keeps {
			gets(t, s, xdstest.EndpointType, "b")
		} else {
			s.Quiet(t, shortQuiet)
		}
	}},
	"empty-first": {"linear", false, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(endpointAt("a", 1), endpointAt("b", 1))
		s.Subscribe(xdstest.EndpointType)
		if keeps {
			s.Quiet(t, shortQuiet)
		} else {
			gets(t, s, xdstest.EndpointType, "a", "b")
		}
	}},
	"empty-after-names": {"snapshot", false, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(clusterAt("a", 1), clusterAt("b", 1))
		s.Subscribe(xdstest.ClusterType, "a")
		s.Ack(gets(t, s, xdstest.ClusterType, "a"))
		s.Unsubscribe(xdstest.ClusterType, "a")
		s.Quiet(t, shortQuiet)
		k.set(clusterAt("a", 2), clusterAt("b", 2))
		if keeps {
			s.Quiet(t, shortQuiet)
		} else {
			gets(t, s, xdstest.ClusterType, "a", "b")
		}
	}},
	"star": {"snapshot", false, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(clusterAt("a", 1), clusterAt("b", 1))
		s.Subscribe(xdstest.ClusterType, "*")
		if keeps {
			s.Ack(gets(t, s, xdstest.ClusterType, "a", "b"))
			s.Quiet(t, shortQuiet)
			return
		}
		for range 50 {
			s.Ack(gets(t, s, xdstest.ClusterType))
		}
	}},
	"superset": {"ads", false, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(endpointAt("a", 1), endpointAt("b", 1))
		s.Subscribe(xdstest.EndpointType, "a")
		if keeps {
			gets(t, s, xdstest.EndpointType, "a")
		} else {
			s.Quiet(t, shortQuiet)
		}
	}},
	"gone-while-away": {"linear", false, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(clusterAt("a", 1))
		s.Subscribe(xdstest.EndpointType, "a") // keeps the relay's stream
		k.remove(xdstest.ClusterType, "a")
		s.Resume(xdstest.ClusterType, "1", nil, "a")
		if keeps {
			gets(t, s, xdstest.ClusterType)
		} else {
			s.QuietType(t, xdstest.ClusterType, shortQuiet)
		}
	}},
	"node": {"snapshot", false, func(t *testing.T, k *knownTalk, s *xdstest.Stream, keeps bool) {
		k.set(clusterAt("a", 1))
		s.Subscribe(xdstest.EndpointType, "e")
		s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: xdstest.ClusterType, Node: xdstest.Node("client", "another-key")})
		if keeps {
			gets(t, s, xdstest.ClusterType, "a")
		} else {
			gets(t, s, xdstest.ClusterType, "secret")
		}
	}},
}
