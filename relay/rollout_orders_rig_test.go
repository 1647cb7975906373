package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"

	"xdsrelay/relay"
	"xdsrelay/relay/admin"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest/standin"
)

// orderedTier is a tier with a Redis in virtual time, whose nodes are machines of their own. All have the
// key "demo", and clients of it.
type orderedTier struct {
	*staged

	network  *xdstest.Memory
	redis    *standin.Server
	names    []string // of the nodes that run
	machines map[string]*machine
	clientOf map[string][]*xdstest.Auto // by node
}

// machine is what a node runs on.
type machine struct {
	running

	host   *xdstest.Host
	config *config.Config
	ip     string
}

const orderedRedis = "127.0.0.2:6379"

// orderTier starts nodes with two clients each, but for those of which the name is in without. With a policy,
// the key has it.
func orderTier(t *testing.T, nodes int, policy *config.RolloutPolicy, without ...string) *orderedTier {
	t.Helper()
	w := &orderedTier{network: xdstest.NewMemory(), redis: standin.New(), machines: make(map[string]*machine), clientOf: make(map[string][]*xdstest.Auto)}
	w.staged = &staged{t: t, origin: w.network.NewStateOrigin(t, (*corev3.Node).GetCluster)}
	l, err := w.network.NewHost("redis", "127.0.0.2").Listen(orderedRedis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.redis.Close)
	go w.redis.Serve(l)
	w.origin.Set("demo", w.revision("a")...)
	token, keys := tokenFile(t), keysOf(t, "one")
	for i := range nodes {
		cfg, ip := testConfig(), fmt.Sprintf("127.0.1.%d", i+1)
		cfg.Node.Name = string(rune('a' + i))
		cfg.Listener.Address, cfg.Admin.Address, cfg.Tier.Peer.Address = ip+":18000", ip+":19000", ip+":18100"
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, config.Delta
		cfg.Tier.Redis.URL, cfg.Tier.Balance.Enabled, cfg.Tier.Peer.TokenFile = "redis://"+orderedRedis, false, token
		cfg.LastKnownGood.Store, cfg.LastKnownGood.EncryptionKeysFile, cfg.LastKnownGood.WriteDelay = config.StoreRedis, keys, 100*time.Millisecond
		if policy != nil {
			cfg.Rollout.Policies, cfg.Rollout.Budget = []config.RolloutPolicy{*policy}, []string{"100%"}
			cfg.Aggregation.Rules = []aggregation.Rule{{Name: "web", Key: "node.cluster", Rollout: policy.Name}}
		}
		w.names = append(w.names, cfg.Node.Name)
		w.machines[cfg.Node.Name] = &machine{config: cfg, ip: ip}
		w.begin(cfg.Node.Name)
	}
	<-time.After(30 * time.Second) // all nodes know each other
	for _, name := range w.names {
		for c := range 2 {
			if !slices.Contains(without, name) {
				w.joins(name, fmt.Sprintf("client-%s-%d", name, c))
			}
		}
	}
	w.all("the first configuration", w.has("a"))
	t.Cleanup(func() {
		if t.Failed() {
			is := w.shown(w.names[0])
			t.Logf("the key: %+v; its rollout: %+v", is, is.Rollout)
		}
	})
	return w
}

// begin starts a node on its machine.
func (w *orderedTier) begin(name string) {
	w.t.Helper()
	m := w.machines[name]
	if m.host != nil {
		m.host.Vanish(true)
	}
	m.host = w.network.NewHost(name, m.ip)
	m.running = startWith(w.t, m.config, relay.Options{Version: "v-test", Listen: m.host.Listen, Dial: m.host.Dial})
}

// joins adds a client of a node.
func (w *orderedTier) joins(name, id string) *xdstest.Auto {
	w.t.Helper()
	node := xdstest.Node(id, "demo")
	node.UserAgentName = "test"
	c := xdstest.StartAuto(w.t, xdstest.AutoConfig{
		Addr: w.machines[name].Addr(), Node: node, Variant: xdstest.Variant{Delta: len(w.clients)%2 == 1}, Nack: w.nack,
		DialOptions: []grpc.DialOption{w.network.Option()}, LongestBackoff: time.Second,
	})
	c.Subscribe(xdstest.ClusterType)
	c.Subscribe(xdstest.ListenerType)
	c.Subscribe(xdstest.RouteType, "r")
	c.Subscribe(xdstest.EndpointType, "a")
	w.clients, w.clientOf[name] = append(w.clients, c), append(w.clientOf[name], c)
	return c
}

// ends ends a node: as SIGTERM does, or as kill -9. Its clients connect to another one.
func (w *orderedTier) ends(name string, killed bool) {
	w.t.Helper()
	m := w.machines[name]
	w.names = slices.DeleteFunc(w.names, func(n string) bool { return n == name })
	if killed {
		m.host.Vanish(true)
	}
	m.stop()
	if killed {
		<-m.done //nolint:errcheck // its ports are gone with the machine
	} else {
		m.ended(w.t)
	}
	for _, c := range w.clientOf[name] {
		c.MoveTo(w.machines[w.names[0]].Addr())
	}
	w.clientOf[w.names[0]] = append(w.clientOf[w.names[0]], w.clientOf[name]...)
	w.clientOf[name] = nil
	<-time.After(30 * time.Second) // the others know
}

// owner returns the node that owns the key.
func (w *orderedTier) owner() string { return w.names[ownerOf("demo", w.names...)] }

// follower returns a node that does not.
func (w *orderedTier) follower() string {
	return w.names[slices.IndexFunc(w.names, func(n string) bool { return n != w.owner() })]
}

// ask asks the admin port of a node.
func (w *orderedTier) ask(name, method, path string, into any) (code int, text string) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return w.network.Dial(ctx, address)
	}}}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+w.machines[name].AdminAddr()+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set(admin.RequestHeader, "1")
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && into != nil && res.StatusCode == http.StatusOK {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		w.t.Fatalf("%s: %v in %s", path, err, data)
	}
	return res.StatusCode, string(data)
}

// orders gives an order about the key to a node, or with all about all keys.
func (w *orderedTier) orders(name, do string, all bool, status int) (done ops.RolloutOrdered, text string) {
	w.t.Helper()
	q := url.Values{ops.ParamKey: {"demo"}, ops.ParamReason: {"test"}}
	if all {
		q = url.Values{ops.ParamAll: {"true"}, ops.ParamReason: {"test"}}
	}
	code, text := w.ask(name, http.MethodPost, "/rollout/"+do+"?"+q.Encode(), &done)
	if code != status {
		w.t.Fatalf("%s on node %s: status %d, expected %d: %s", do, name, code, status, text)
	}
	return done, text
}

// shown returns what a node says about the key; the zero value while it has no client.
func (w *orderedTier) shown(name string) (k ops.RolloutKey) {
	w.t.Helper()
	var all ops.Rollout
	if _, _ = w.ask(name, http.MethodGet, "/api/v1/rollout?key=demo", &all); len(all.Keys) == 1 {
		k = all.Keys[0]
	}
	return k
}

// waits waits for a state of the rollout of the key.
func (w *orderedTier) waits(state string) {
	w.t.Helper()
	xdstest.Eventually(w.t, "the state is "+state, func() bool {
		is := w.shown(w.names[0]).Rollout
		return is != nil && is.State == state
	})
}

// checkAll holds that no node contradicts itself, and that no client was sent something wrong.
func (w *orderedTier) checkAll() {
	w.t.Helper()
	for _, name := range w.names {
		for _, wrong := range w.machines[name].Check() {
			w.t.Errorf("node %s: %s", name, wrong)
		}
	}
	for _, c := range w.clients {
		c.CheckViolations(w.t)
	}
}
