package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// questionsTier is a tier of three processes with Redis, a control plane, a directory and clients.
type questionsTier struct {
	dir   string
	plane *xdstest.ControlPlane
	// other is the control plane that only node c uses. It has the same content until a situation
	// changes that.
	other     *xdstest.ControlPlane
	redis     *redistest.Server
	nodes     map[string]*program
	clients   map[string]string // addresses of nodes for clients
	admin     map[string]string
	authority *xdstest.Authority
}

const questionsNodes = "abc"

// questionPatience is how long a situation may need until the answers name it.
const questionPatience = 20 * time.Second

const questionsToken = "a-secret-of-all-nodes-of-the-tier\n"

// questionsConfig is the configuration of a node: name, addresses of the ports, directory of files,
// control plane and Redis.
const questionsConfig = `node: {name: %[1]s}
listeners:
  - {name: plain, address: %[2]q}
  - {name: secure, address: %[3]q, tls: {cert_file: late.pem, key_file: late-key.pem}}
rest: {address: %[4]q, tls: {cert_file: ending.pem, key_file: ending-key.pem}}
admin: {address: %[5]q}
upstreams:
  - {name: plane, addresses: [%[6]q], backoff: {initial: 100ms, max: 200ms}}
  - {name: files, directory: files, types: [Runtime]}
downstream: {send_timeout: 2s}
limits: {max_node_size: 4KiB, max_response_size: 64KiB, max_idle_keys_size: 0B, max_memory_percent: 95}
authorization:
  rules:
    - {name: no-strangers, match: 'node.cluster == "stranger"', deny: true}
    - {name: all-others, match: 'peer.listener == "plain"'}
cache: {linger: 1s}
removal_guard: {max_percent: 50, hold: 10m}
last_known_good: {store: redis, write_delay: 100ms, max_size: 64KiB}
log: {level: info}
tier:
  redis: {url: "redis://%[7]s", timeout: 200ms}
  lease: 3s
  owner_timeout: 500ms
  newer_state_timeout: 500ms
  own_upstream_addresses: true
  peer: {address: %[8]q, token_file: token-%[1]s}
`

func newQuestionsTier(t *testing.T) *questionsTier {
	t.Helper()
	w := &questionsTier{
		dir: t.TempDir(), plane: xdstest.NewControlPlane(t, nil), other: xdstest.NewControlPlane(t, nil), redis: redistest.Start(t, redistest.Config{}),
		nodes: make(map[string]*program), clients: make(map[string]string), admin: make(map[string]string), authority: xdstest.NewAuthority(t, "authority"),
	}
	t.Chdir(w.dir) // paths in configurations and commands are relative
	w.setShop(t, "v1", time.Second)
	w.setBulk(t, "v1", 10)
	w.set(t, "edge", "v1", xdstest.Cluster("edge-a", time.Second))
	w.set(t, "kept", "v1", xdstest.Cluster("kept-a", time.Second))
	w.set(t, "big", "v1", xdstest.Cluster("big-"+random(150<<10), time.Second), xdstest.Endpoints("big-a", "127.0.0.1:1"))
	w.write(t, "node.json", `{"id": "new", "cluster": "shop"}`)
	w.certificate(t, "late", 10*time.Minute) // of an hour
	w.certificate(t, "ending", 8*time.Second)
	w.write(t, "files/runtime.json", `{"resources": [{"@type": "type.googleapis.com/envoy.service.runtime.v3.Runtime", "name": "flags", "layer": {"on": true}}]}`)
	for i, name := range strings.Split(questionsNodes, "") {
		at := func(port int) string { return net.JoinHostPort(hostOf(os.Getpid()), strconv.Itoa(port+i)) }
		w.clients[name], w.admin[name] = at(18000), at(19000)
		plane := w.plane
		if name == "c" {
			plane = w.other
			t.Setenv("GOMEMLIMIT", "100MiB")
		}
		w.write(t, "token-"+name, questionsToken)
		w.write(t, name+".yaml", fmt.Sprintf(questionsConfig, name, w.clients[name], at(18100), at(18200), w.admin[name], plane.Addr(), w.redis.Addr(), at(18500)))
		w.nodes[name] = startProgram(t, "run", "-c", name+".yaml")
	}
	for i, c := range []xdstest.AutoConfig{
		{Node: xdstest.Node("web-sotw", "shop"), Variant: xdstest.SotW},
		{Node: xdstest.Node("web-delta", "shop"), Variant: xdstest.Delta},
		{Node: xdstest.Node("picky", "shop"), Variant: xdstest.Delta, Nack: w.rejects},
		{Node: xdstest.Node("stuck", "shop"), Variant: xdstest.SotW, BeforeAck: w.stalls},
		{Node: xdstest.Node("edge-1", "edge"), Variant: xdstest.Delta},
		{Node: xdstest.Node("bulk-client", "bulk"), Variant: xdstest.Delta},
	} {
		w.client(t, string(questionsNodes[i%2]), c) // c has none: it dies later
	}
	return w
}

// client starts a client of a node that subscribes to clusters.
func (w *questionsTier) client(t *testing.T, node string, c xdstest.AutoConfig, names ...string) *xdstest.Auto {
	t.Helper()
	c.Addr = w.clients[node]
	client := xdstest.StartAuto(t, c)
	client.Subscribe(xdstest.ClusterType, names...)
	return client
}

// hostOf is an address of loopback that no other process uses, so that ports on it are free.
func hostOf(pid int) string {
	return fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, max(pid&255, 1))
}

// write writes a file of the tier by renaming it into place.
func (w *questionsTier) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path+".new", []byte(text), 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rewrite replaces a part of a node's configuration, and returns what brings the former one back.
func (w *questionsTier) rewrite(t *testing.T, node, from, to string) (back func()) {
	t.Helper()
	was := fileText(t, filepath.Join(w.dir, node+".yaml"))
	if !strings.Contains(was, from) {
		t.Fatalf("the configuration lacks %q", from)
	}
	w.write(t, node+".yaml", strings.Replace(was, from, to, 1))
	return func() { w.write(t, node+".yaml", was) }
}

func (w *questionsTier) certificate(t *testing.T, name string, life time.Duration) {
	t.Helper()
	cert, key := w.authority.IssueUntil(time.Now().Add(life), hostOf(os.Getpid()))
	w.write(t, name+".pem", string(cert))
	w.write(t, name+"-key.pem", string(key))
}

// set sets the resources of a key in both control planes.
func (w *questionsTier) set(t *testing.T, key, version string, resources ...proto.Message) {
	t.Helper()
	w.plane.SetSnapshot(t, key, version, resources...)
	w.other.SetSnapshot(t, key, version, resources...)
}

// setShop sets the clusters of the key shop; the timeout of one of them makes a version.
func (w *questionsTier) setShop(t *testing.T, version string, timeout time.Duration) {
	t.Helper()
	w.set(t, "shop", version, xdstest.Cluster("shop-a", timeout), xdstest.Cluster("shop-b", time.Second),
		xdstest.Endpoints("shop-a", "127.0.0.1:1"), xdstest.Endpoints("shop-b", "127.0.0.1:2"))
}

func (w *questionsTier) setBulk(t *testing.T, version string, count int) {
	t.Helper()
	var all []proto.Message
	for i := range count {
		all = append(all, xdstest.Cluster(fmt.Sprintf("bulk-%d", i), time.Second))
	}
	w.set(t, "bulk", version, all...)
}

// random is a text that cannot be compressed to less than half of its size.
func random(size int) string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// keyOfOther is a key that another node owns than one, as node b sees it.
func (w *questionsTier) keyOfOther(t *testing.T, than string) string {
	t.Helper()
	for i := range 100 {
		key := fmt.Sprintf("late-%d", i)
		res, err := http.Get("http://" + w.admin["b"] + "/tier/owner?key=" + key)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), than+"\n") {
			return key
		}
	}
	t.Fatalf("node %s owns all keys", than)
	return ""
}

// timeoutOf is the connect timeout of shop-a in a response; 0 if the cluster is not in it.
func timeoutOf(f *xdstest.Frame) time.Duration {
	for _, r := range f.Resources {
		if r.Name == "shop-a" {
			cluster := &clusterv3.Cluster{}
			if r.Body.UnmarshalTo(cluster) != nil {
				return 0
			}
			return cluster.GetConnectTimeout().AsDuration()
		}
	}
	return 0
}

// rejects is the answer of a client that rejects one version of shop-a.
func (w *questionsTier) rejects(f *xdstest.Frame) string {
	if timeoutOf(f) == rejectedTimeout {
		return "no such filter"
	}
	return ""
}

// stalls does not answer one version of shop-a.
func (w *questionsTier) stalls(ctx context.Context, f *xdstest.Frame) {
	if timeoutOf(f) == stalledTimeout {
		<-ctx.Done()
	}
}

const rejectedTimeout, stalledTimeout = 3 * time.Second, 4 * time.Second
