package fanout

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// refusedWith fails the test unless the stream ends with a code and words.
func refusedWith(t xdstest.TB, s *xdstest.Stream, code codes.Code, words string) {
	t.Helper()
	if st := s.ExpectClosed(t); st.Code() != code || !strings.Contains(st.Message(), words) {
		t.Fatalf("the stream ended %v, expected %v about %q", st, code, words)
	}
}

// B1: only the Node in the first request counts, whether later requests omit it or have another.
func TestNodeIsThatOfTheFirstRequest(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds) // with the Node of key "test-cluster"
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		s.Subscribe(eds, "a") // without a Node
		w.asked(eds, "a")
		other := xdstest.Node("somebody-else", "other-cluster")
		if delta {
			s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: other, TypeUrl: rds, ResourceNamesSubscribe: []string{"r"}})
		} else {
			s.Send(&discoveryv3.DiscoveryRequest{Node: other, TypeUrl: rds, ResourceNames: []string{"r"}})
		}
		w.asked(rds, "r") // of the first key
		w.change(rds, nil, route("r", "a"))
		has(t, s.RecvType(t, rds), "r")
		if len(w.feeds) != 0 {
			t.Fatal("another node on a later request made another key")
		}
		if i := w.srv.Streams()[0]; i.NodeID != "test-client" || i.Key != "test-cluster" {
			t.Fatalf("the stream is known as %q of %q", i.NodeID, i.Key)
		}
	})
}

// B1: a client without a Node, or without a matching rule, is refused.
func TestNodeRefused(t *testing.T) {
	rules, err := aggregation.Compile([]aggregation.Rule{{Name: "prod", Match: `node.cluster == "prod"`, Key: "node.cluster"}}, aggregation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, func(c *Config) { c.Rules = func() *aggregation.Rules { return rules } })
		for what, c := range map[string]struct {
			node *corev3.Node
			code codes.Code
			says string
		}{
			"no node": {nil, codes.InvalidArgument, "node id"},
			"no id":   {&corev3.Node{Cluster: "prod"}, codes.InvalidArgument, "node id"},
			"no rule": {xdstest.Node("x", "dev"), codes.PermissionDenied, "no aggregation rule"},
		} {
			t.Log(what)
			conn := w.dial()
			conn.Node = c.node
			s := conn.Open(xdstest.Variant{Delta: delta})
			s.Subscribe(cds)
			refusedWith(t, s, c.code, c.says)
		}
		if len(w.feeds) != 0 {
			t.Fatal("a refused client made a key")
		}
	})
}

// K6, K18: clients of different keys share a connection and names, and never see each other's
// resources.
func TestKeysAreApart(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		open := func(key string) (*xdstest.Stream, *cache.Feed) {
			w.conn.Node = xdstest.Node("client", key)
			s := w.open(delta)
			s.Subscribe(cds)
			s.Subscribe(eds, "shared", key)
			f := w.feedOf(key)
			xdstest.Eventually(t, "both types to be asked", func() bool { return len(f.TakeDemand(true, true)) == 2 })
			return s, f
		}
		red, redFeed := open("red")
		blue, blueFeed := open("blue")
		give := func(f *cache.Feed, name string, v int) {
			f.Apply(cache.Update{Type: resource.TypeOf(cds), Full: true, Version: "v", Resources: resources(t, cluster(name, v))})
			f.Apply(cache.Update{Type: resource.TypeOf(eds), Resources: resources(t, endpoints("shared", v), endpoints(name, v))})
		}
		give(redFeed, "red", 1)
		has(t, red.RecvType(t, cds), "red")
		f := red.RecvType(t, eds)
		blue.Quiet(t, short)
		give(blueFeed, "blue", 2)
		has(t, blue.RecvType(t, cds), "blue")
		g := has(t, blue.RecvType(t, eds), "blue", "shared")
		a, _ := f.Get("shared")
		b, _ := g.Get("shared")
		if string(a.Body.GetValue()) == string(b.Body.GetValue()) {
			t.Fatal("the keys share a resource of one name")
		}
		red.Quiet(t, short)
	})
}
