package relay_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/klauspost/compress/zstd"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// flock is one client of each variant, and what they have been told since a mark.
type flock struct {
	t    *testing.T
	all  []*xdstest.Auto
	some map[*xdstest.Auto]*told
}

// told is what one client was told.
type told struct {
	variant xdstest.Variant

	mu    sync.Mutex
	names map[string]bool // guarded by mu: of resources and removals, by type and name
}

// wishes are what clients ask for of each type; nothing means everything.
var wishes = map[string][]string{
	xdstest.ClusterType: nil, xdstest.EndpointType: {"c1", "c2"}, xdstest.RouteType: {"r1"}, xdstest.SecretType: {"s1"},
}

// newFleet starts the clients: two that ask for everything on one stream, and two for
// each type that has methods of its own.
func newFleet(t *testing.T, addr, name string) *flock {
	t.Helper()
	f := &flock{t: t, some: make(map[*xdstest.Auto]*told)}
	vs := []xdstest.Variant{xdstest.SotW, xdstest.Delta}
	for typ := range wishes {
		vs = append(vs, xdstest.Variants(typ)[2:]...)
	}
	for _, v := range vs {
		seen := &told{variant: v, names: make(map[string]bool)}
		c := xdstest.StartAuto(t, xdstest.AutoConfig{
			Addr: addr, Variant: v, Node: xdstest.Node(name+"-"+v.String(), "demo"),
			Nack: func(f *xdstest.Frame) string {
				seen.mu.Lock()
				defer seen.mu.Unlock()
				_, typ, _ := strings.Cut(f.TypeURL, "v3.")
				for _, r := range f.Resources {
					seen.names[typ+" "+r.Name] = true
				}
				for _, n := range f.Removed {
					seen.names[typ+" -"+n] = true
				}
				return ""
			},
		})
		for typ, names := range wishes {
			if v.Service == "" || v.Service == typ {
				c.Subscribe(typ, names...)
			}
		}
		f.all, f.some[c] = append(f.all, c), seen
	}
	return f
}

// holds waits until each client holds just these.
func (f *flock) holds(what string, byType map[string][]string) {
	f.t.Helper()
	for _, c := range f.all {
		for typ, names := range byType {
			if v := f.some[c].variant; v.Service != "" && v.Service != typ {
				continue
			}
			c.WaitFor(f.t, what+": "+c.String(), func() bool {
				return slices.Equal(slices.Sorted(maps.Keys(c.Held(typ))), names)
			})
		}
		c.CheckViolations(f.t)
	}
}

// forget begins a new account of what delta clients are told, and news reads it.
func (f *flock) forget() {
	for _, s := range f.some {
		s.mu.Lock()
		clear(s.names)
		s.mu.Unlock()
	}
}

func (f *flock) news() map[string]bool {
	all := make(map[string]bool)
	for _, s := range f.some {
		if s.variant.Delta {
			s.mu.Lock()
			maps.Copy(all, s.names)
			s.mu.Unlock()
		}
	}
	return all
}

// wereTold holds that delta clients were told just that. Those that are new may have
// been told endpoints again, as these follow their clusters (E3).
func (f *flock) wereTold(young bool, want ...string) {
	f.t.Helper()
	news := f.news()
	for _, w := range want {
		if !news[w] {
			f.t.Errorf("delta clients were not told %q", w)
		}
		delete(news, w)
	}
	for name := range news {
		if !young || !strings.HasPrefix(name, "ClusterLoadAssignment c") {
			f.t.Errorf("delta clients were told %q, too", name)
		}
	}
}

// canary stands in secrets and nowhere else.
const canary = "CANARY-IN-THE-COAL-MINE"

func lastGoodConfig(t *testing.T, dir, keys string) *config.Config {
	cfg := testConfig()
	cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory, cfg.LastKnownGood.EncryptionKeysFile = config.StoreDirectory, dir, keys
	cfg.LastKnownGood.WriteDelay = 100 * time.Millisecond
	cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max = 50*time.Millisecond, 200*time.Millisecond
	return cfg
}

func keysOf(t *testing.T, ids ...string) string {
	t.Helper()
	var text strings.Builder
	for _, id := range ids {
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		text.WriteString(id + ":" + base64.StdEncoding.EncodeToString(key) + "\n")
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRestartWithoutOrigin: a node that starts while its origin is down serves new and
// old clients of all variants what it last had, marked as stale. When the origin is
// back, only what differs goes out, and what is gone goes with its first answer and
// not before (K14).
func TestRestartWithoutOrigin(t *testing.T) {
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		t.Run("origin="+string(variant), func(t *testing.T) { restartWithoutOrigin(t, variant) })
	}
}

func restartWithoutOrigin(t *testing.T, variant config.Variant) {
	o := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	up := xdstest.NewNetwork(t, o.Addr())
	dir, keys := t.TempDir(), keysOf(t, "one")
	o.Set("demo",
		xdstest.Cluster("c1", time.Second), xdstest.Cluster("c2", time.Second), xdstest.Cluster("c3", time.Second),
		xdstest.Endpoints("c1", "10.0.0.1:1"), xdstest.Endpoints("c2", "10.0.0.2:1"),
		xdstest.Route("r1", "c1"), xdstest.Secret("s1", "certificate", canary))
	cfg := lastGoodConfig(t, dir, keys)
	cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{up.Addr()}, variant

	first := start(t, cfg)
	old := newFleet(t, first.Addr(), "old")
	state := map[string][]string{
		xdstest.ClusterType: {"c1", "c2", "c3"}, xdstest.EndpointType: {"c1", "c2"}, xdstest.RouteType: {"r1"}, xdstest.SecretType: {"s1"},
	}
	old.holds("the first state", state)

	up.Refuse()
	up.Cut()
	first.stop()
	first.ended(t)
	noSecrets(t, dir)

	var log lines
	second := startWith(t, cfg, relay.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	old.forget()
	for _, c := range old.all {
		c.MoveTo(second.Addr())
	}
	young := newFleet(t, second.Addr(), "young")
	young.holds("what was kept", state)
	old.holds("what they had", state)
	for _, c := range old.all {
		c.WaitFor(t, "the new node", c.Connected)
	}
	if _, page := second.get(t, "/debug/keys"); !strings.Contains(page, "last known good") {
		t.Errorf("the page of keys does not say that it is stale:\n%s", page)
	}
	if _, metrics := second.get(t, "/metrics"); !strings.Contains(metrics, "xdsrelay_last_known_good_unconfirmed_keys 1") {
		t.Error("/metrics does not say that the key is stale")
	}
	xdstest.Eventually(t, "a line in the log", func() bool { return log.count("last known good state of a key restored") == 1 })

	// The origin comes back with something else.
	o.Update("demo", func(c *xdstest.Change) {
		c.Remove(xdstest.ClusterType, "c3")
		c.Set(xdstest.Cluster("c4", time.Second))
		c.Set(xdstest.Endpoints("c2", "10.0.0.9:1"))
	})
	young.forget()
	before := old.news()
	if len(before) > 0 {
		t.Errorf("clients that came back with what is kept were told %v", before)
	}
	if err := up.Heal(); err != nil {
		t.Fatal(err)
	}
	state[xdstest.ClusterType] = []string{"c1", "c2", "c4"}
	for _, f := range []*flock{young, old} {
		f.holds("the new state", state)
		for _, c := range f.all {
			if v := f.some[c].variant; v.Service != "" && v.Service != xdstest.EndpointType {
				continue
			}
			c.WaitFor(t, "the new endpoints", func() bool {
				return bytes.Contains(c.Held(xdstest.EndpointType)["c2"].Body, []byte("10.0.0.9"))
			})
		}
		f.wereTold(f == young, "Cluster -c3", "Cluster c4", "ClusterLoadAssignment c2")
	}
	xdstest.Eventually(t, "nothing is stale", func() bool {
		_, metrics := second.get(t, "/metrics")
		return strings.Contains(metrics, "xdsrelay_last_known_good_unconfirmed_keys 0")
	})
	for _, wrong := range second.Check() {
		t.Error(wrong)
	}
}

// noSecrets holds that no file has the canary in it, as it is or compressed.
func noSecrets(t *testing.T, dir string) {
	t.Helper()
	var contents [][]byte
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		contents = append(contents, content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	noneLeaks(t, contents)
}

// noneLeaks holds that there are contents, and none has the canary in it.
func noneLeaks(t *testing.T, contents [][]byte) {
	t.Helper()
	unpack, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unpack.Close()
	for _, content := range contents {
		if leaks(unpack, content) {
			t.Errorf("a secret stands in the clear in what is kept, in one of %d places", len(contents))
		}
	}
	if len(contents) == 0 {
		t.Error("nothing is kept")
	}
}

// leaks reports whether the canary is in content, or in anything that can be
// uncompressed of it.
func leaks(unpack *zstd.Decoder, content []byte) bool {
	if bytes.Contains(content, []byte(canary)) {
		return true
	}
	for rest := content; ; {
		i := bytes.Index(rest, []byte{0x28, 0xb5, 0x2f, 0xfd})
		if i < 0 {
			return false
		}
		plain, _ := unpack.DecodeAll(rest[i:], nil)
		if bytes.Contains(plain, []byte(canary)) {
			return true
		}
		rest = rest[i+1:]
	}
}

// TestTierRestartWithoutOrigin: a tier of two nodes that starts while the origin is
// down serves what Redis has of it, to new and old clients of all variants, on
// whichever node they come to; and only what differs goes out when the origin is back
// (K14). Redis has no secret in the clear.
func TestTierRestartWithoutOrigin(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	o := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	up := xdstest.NewNetwork(t, o.Addr())
	o.Set("demo",
		xdstest.Cluster("c1", time.Second), xdstest.Cluster("c2", time.Second), xdstest.Cluster("c3", time.Second),
		xdstest.Endpoints("c1", "10.0.0.1:1"), xdstest.Endpoints("c2", "10.0.0.2:1"),
		xdstest.Route("r1", "c1"), xdstest.Secret("s1", "certificate", canary))
	keys := keysOf(t, "one")
	node := func(name string) running {
		cfg := lastGoodConfig(t, "", keys)
		cfg.Node.Name, cfg.LastKnownGood.Store = name, config.StoreRedis
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{up.Addr()}, config.Delta
		cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout, cfg.Tier.Peer.Address = redis.URL(), xdstest.Patience, "127.0.0.1:0"
		return start(t, cfg)
	}
	state := map[string][]string{
		xdstest.ClusterType: {"c1", "c2", "c3"}, xdstest.EndpointType: {"c1", "c2"}, xdstest.RouteType: {"r1"}, xdstest.SecretType: {"s1"},
	}
	a, b := node("a"), node("b")
	olds := []*flock{newFleet(t, a.Addr(), "old-a"), newFleet(t, b.Addr(), "old-b")}
	for _, f := range olds {
		f.holds("the first state", state)
	}
	kept := func() (contents [][]byte) {
		for _, name := range redis.Do("KEYS", "*:good:*").([]any) {
			if v, ok := redis.Do("GET", name).(string); ok {
				contents = append(contents, []byte(v))
			}
		}
		return contents
	}
	xdstest.Eventually(t, "all types are kept", func() bool { return len(kept()) == len(wishes) })
	noneLeaks(t, kept())

	up.Refuse()
	up.Cut()
	for _, n := range []running{a, b} {
		n.stop()
	}
	a.ended(t)
	b.ended(t)

	c, d := node("c"), node("d")
	for i, f := range olds {
		f.forget()
		for _, client := range f.all {
			client.MoveTo([]running{d, c}[i].Addr())
		}
	}
	fleets := slices.Concat(olds, []*flock{newFleet(t, c.Addr(), "young-c"), newFleet(t, d.Addr(), "young-d")})
	for _, f := range fleets {
		f.holds("what was kept", state)
	}
	for _, f := range olds {
		for _, client := range f.all {
			client.WaitFor(t, "the new node", client.Connected)
		}
	}
	for _, f := range fleets[2:] {
		f.forget()
	}
	o.Update("demo", func(c *xdstest.Change) {
		c.Remove(xdstest.ClusterType, "c3")
		c.Set(xdstest.Cluster("c4", time.Second))
	})
	if err := up.Heal(); err != nil {
		t.Fatal(err)
	}
	state[xdstest.ClusterType] = []string{"c1", "c2", "c4"}
	for _, f := range fleets {
		f.holds("the new state", state)
	}
	for i, f := range fleets {
		f.wereTold(i >= len(olds), "Cluster -c3", "Cluster c4")
	}
}

// TestLastChangeIsKept: what changed a moment before a node ends is kept in Redis, too,
// however long changes are gathered: the node still owns the key then.
func TestLastChangeIsKept(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	o := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	o.Set("demo", xdstest.Cluster("c1", time.Second))
	cfg := lastGoodConfig(t, "", keysOf(t, "one"))
	cfg.Node.Name, cfg.LastKnownGood.Store, cfg.LastKnownGood.WriteDelay = "a", config.StoreRedis, time.Hour
	cfg.Upstream.Addresses = []string{o.Addr()}
	cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout, cfg.Tier.Peer.Address = redis.URL(), xdstest.Patience, "127.0.0.1:0"
	n := start(t, cfg)
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node("c", "demo")})
	c.Subscribe(xdstest.ClusterType)
	c.WaitHeld(t, xdstest.ClusterType, "c1")
	of := func(what string) int { return len(redis.Do("KEYS", what).([]any)) }
	// A head stands beside the epoch once the node knows that it has claimed the key.
	xdstest.Eventually(t, "a head to be written", func() bool { return redis.Do("HLEN", "xdsrelay:{demo}:head").(int64) > 1 })
	if n := of("*:good:*"); n > 0 {
		t.Fatalf("%d records are kept before their time", n)
	}
	n.stop()
	n.ended(t)
	if of("*:good:*") != 1 {
		t.Errorf("the last change is not kept: %v", redis.Do("KEYS", "*"))
	}
}
