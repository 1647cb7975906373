package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/relay/xdstest"
)

// situations are the situations of the page: each function begins one, and returns what ends it, or
// nil.
var situations = map[string]func(*testing.T, *questionsTier) (end func()){
	"All is well":                func(*testing.T, *questionsTier) func() { return nil },
	"An update arrives":          func(t *testing.T, w *questionsTier) func() { w.setShop(t, "v2", 2*time.Second); return nil },
	"A client rejects an update": func(t *testing.T, w *questionsTier) func() { w.setShop(t, "v3", rejectedTimeout); return nil },
	"A client does not answer":   func(t *testing.T, w *questionsTier) func() { w.setShop(t, "v4", stalledTimeout); return nil },
	"A client answers slowly": func(t *testing.T, w *questionsTier) func() {
		w.client(t, "b", xdstest.AutoConfig{Node: xdstest.Node("slow", "edge"), Variant: xdstest.Delta, BeforeAck: func(ctx context.Context, _ *xdstest.Frame) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}})
		return nil
	},
	"A client does not read": func(t *testing.T, w *questionsTier) func() {
		conn := xdstest.Dial(t, w.clients["b"])
		conn.Node = xdstest.Node("hangs", "big")
		s := conn.Open(xdstest.Delta)
		s.StopReading()
		s.Subscribe(xdstest.EndpointType, "big-a") // which gRPC still takes
		s.Subscribe(xdstest.ClusterType)           // fills the window
		s.Subscribe(xdstest.RuntimeType, "flags")  // waits behind the clusters
		return nil
	},
	"A client asks for what does not exist": func(t *testing.T, w *questionsTier) func() {
		w.client(t, "b", xdstest.AutoConfig{Node: xdstest.Node("lost", "edge"), Variant: xdstest.Delta}, "not-there")
		return nil
	},
	"A response is too large": func(t *testing.T, w *questionsTier) func() {
		w.client(t, "b", xdstest.AutoConfig{Node: xdstest.Node("wide", "big"), Variant: xdstest.SotW})
		return nil
	},
	"A limit rejects clients": func(t *testing.T, w *questionsTier) func() {
		node := xdstest.Node("heavy", "edge")
		node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"labels": structpb.NewStringValue(strings.Repeat("x", 8<<10))}}
		w.client(t, "b", xdstest.AutoConfig{Node: node, Variant: xdstest.Delta})
		return nil
	},
	"A client is not authorized": func(t *testing.T, w *questionsTier) func() {
		w.client(t, "b", xdstest.AutoConfig{Node: xdstest.Node("spy", "stranger"), Variant: xdstest.Delta})
		w.write(t, "spy.json", `{"id": "spy", "cluster": "stranger"}`)
		return nil
	},
	"A certificate was not renewed": func(t *testing.T, w *questionsTier) func() { // from the beginning
		return func() { w.certificate(t, "ending", 24*time.Hour) }
	},
	"Files of a directory are invalid": func(t *testing.T, w *questionsTier) func() {
		w.write(t, "files/wrong.yaml", "name: [")
		return func() { _ = os.Remove(filepath.Join(w.dir, "files", "wrong.yaml")) }
	},
	"One node has most clients": func(t *testing.T, w *questionsTier) func() {
		var all []*xdstest.Auto
		for _, id := range []string{"extra-1", "extra-2", "extra-3", "extra-4"} {
			all = append(all, w.client(t, "a", xdstest.AutoConfig{Node: xdstest.Node(id, "edge"), Variant: xdstest.Delta}))
		}
		return func() {
			for _, c := range all {
				c.Close()
			}
		}
	},
	"A node is short of memory": func(t *testing.T, w *questionsTier) func() {
		return w.rewrite(t, "c", "max_memory_percent: 95", "max_memory_percent: 10")
	},
	"Nodes have different configurations": func(t *testing.T, w *questionsTier) func() {
		return w.rewrite(t, "c", `"stranger"'`, `"visitor"'`)
	},
	"A node has another token": func(t *testing.T, w *questionsTier) func() {
		key := w.keyOfOther(t, "c")
		w.set(t, key, "v1", xdstest.Cluster("old", time.Second))
		w.client(t, "a", xdstest.AutoConfig{Node: xdstest.Node("late-1", key), Variant: xdstest.Delta})
		w.write(t, "token-c", "another-secret-of-this-node\n"+questionsToken) // sends the first, accepts both
		w.await(t, "node c to send the other token", "nodes", func(answer string) bool { return strings.Contains(answer, "nodes of the other tier: c") })
		w.plane.SetSnapshot(t, key, "v2", xdstest.Cluster("new", time.Second))
		w.client(t, "c", xdstest.AutoConfig{Node: xdstest.Node("late-2", key), Variant: xdstest.Delta})
		return func() { w.write(t, "token-c", questionsToken) }
	},
	"The control plane is unreachable": func(t *testing.T, w *questionsTier) func() {
		// A client had the key kept, and left.
		former := w.client(t, "b", xdstest.AutoConfig{Node: xdstest.Node("former", "kept"), Variant: xdstest.Delta})
		former.WaitHeld(t, xdstest.ClusterType, "kept-a")
		xdstest.Eventually(t, "the key kept to be stored", func() bool { return strings.Contains(fmt.Sprint(w.redis.Do("KEYS", "*good*")), "kept") })
		former.Close()
		w.await(t, "node b to evict the key kept", "keys", func(answer string) bool { return !strings.Contains(answer, "kept") })
		w.plane.Stop()
		w.other.Stop()
		w.client(t, "b", xdstest.AutoConfig{Node: xdstest.Node("back", "kept"), Variant: xdstest.Delta})
		return func() {
			for _, p := range []*xdstest.ControlPlane{w.plane, w.other} {
				if err := p.Start(); err != nil {
					t.Fatal(err)
				}
			}
		}
	},
	"The control plane ends streams": func(t *testing.T, w *questionsTier) func() {
		for range 2 {
			if err := w.plane.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	},
	"The control plane rejects one key": func(t *testing.T, w *questionsTier) func() {
		for _, p := range []*xdstest.ControlPlane{w.plane, w.other} {
			p.Refuse(func(n *corev3.Node) error {
				if n.GetCluster() != "unknown" {
					return nil
				}
				return status.Error(codes.PermissionDenied, "no proxy of this cluster is known")
			})
		}
		w.client(t, "b", xdstest.AutoConfig{Node: xdstest.Node("nobody", "unknown"), Variant: xdstest.Delta})
		return nil
	},
	"The control plane sends what is no resource": func(t *testing.T, w *questionsTier) func() {
		w.set(t, "edge", "v2", xdstest.Cluster("edge-a", time.Second), xdstest.Cluster("", time.Second))
		return func() { w.set(t, "edge", "v3", xdstest.Cluster("edge-a", time.Second)) }
	},
	"The control plane loses most resources": func(t *testing.T, w *questionsTier) func() { w.setBulk(t, "v2", 1); return nil },
	"Redis is unreachable": func(_ *testing.T, w *questionsTier) func() {
		w.redis.Kill()
		return w.redis.Start
	},
	"A node dies": func(t *testing.T, w *questionsTier) func() {
		w.kill(t, "c")
		return nil
	},
	"A configuration is wrong": func(t *testing.T, w *questionsTier) func() {
		good := fileText(t, "a.yaml")
		w.write(t, "new.yaml", good+"aggregation: {rules: [{name: one, key: \"'all'\"}]}\n")
		w.write(t, "wrong.yaml", strings.Replace(good, "level: info", "level: loud", 1))
		return w.rewrite(t, "a", "level: info", "level: loud")
	},
	"No node runs": func(t *testing.T, w *questionsTier) func() {
		w.kill(t, "a", "b")
		return nil
	},
}

// kill ends nodes without a chance to drain.
func (w *questionsTier) kill(t *testing.T, nodes ...string) {
	t.Helper()
	for _, name := range nodes {
		if err := w.nodes[name].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		w.nodes[name].wait(t)
	}
}
