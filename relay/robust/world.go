package robust

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/origin"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// World is all parts of a run: what is tried out, what plays the rest, and what
// watches. It belongs to the goroutine of its test.
type World struct {
	t      xdstest.TB
	cfg    Config
	to     *record.Recorder
	file   *record.File
	suite  *check.Suite
	origin *origin.Origin
	redis  *redistest.Server // nil without a tier, and with a cluster
	shards *shards           // nil without a Redis Cluster
	nodes  []*Node
	spare  *Node // joins the tier for the time of a fault; nil without a tier
	fleet  *Fleet
	served *served
	guard  *guarded // nil without the guard
	keys   []string
	random *rand.Rand

	past   map[string]origin.Set // an earlier state of the origin
	before map[string]origin.Set // what a fault took from the origin
	recent []record.Event        // the last that were observed
	found  []check.Contradiction
	totals Totals
}

// New starts all parts, and waits until they are at rest for the first time. They
// end with the test.
func New(t xdstest.TB, cfg Config) *World {
	t.Helper()
	cfg.Lease = cmp.Or(cfg.Lease, defaultLease)
	cfg.OwnerTimeout = cmp.Or(cfg.OwnerTimeout, defaultOwnerTimeout)
	w := &World{
		t: t, cfg: cfg, to: record.NewRecorder(), suite: check.New(check.Options{Tier: cfg.Tier, Digests: !cfg.SotW, Hold: cfg.hold()}),
		random: rand.New(rand.NewPCG(cfg.Seed, 3)),
	}
	file, err := record.Create(filepath.Join(cfg.Dir, "recording.jsonl.zst"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	w.file = file
	t.Cleanup(func() { _ = file.Close() }) // what a run needs of it was written before
	for i := range cfg.Keys {
		w.keys = append(w.keys, "key"+strconv.Itoa(i))
	}
	state := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	if err := state.PermitPings(); err != nil { // nodes ping it every ten seconds
		t.Fatalf("%v", err)
	}
	// Without delta an origin could not tell that what is asked for by name has gone (B32).
	w.origin = origin.New(state, w.to, w.keys, cfg.Size, cfg.SotW)
	w.past = w.origin.Snapshot()
	w.to.Add(record.Event{Kind: record.Begin})
	if cfg.Tier {
		if cfg.Cluster {
			w.shards = startShards(t)
		} else {
			w.redis = redistest.Start(t, redistest.Config{})
		}
		if err := os.WriteFile(filepath.Join(cfg.Dir, tokenFile), []byte("a-secret-of-all-nodes\n"), 0o600); err != nil {
			t.Fatalf("%v", err)
		}
	}
	host := newLoopback()
	for i := range cfg.Nodes {
		w.nodes = append(w.nodes, w.newNode(host, i))
	}
	for _, n := range w.nodes {
		n.Start()
	}
	all := w.nodes
	if cfg.Tier {
		w.spare = w.newNode(host, cfg.Nodes)
		all = append(slices.Clone(all), w.spare)
	}
	w.served = newServed(all)
	if cfg.Guard {
		w.guard = newGuarded()
	}
	w.fleet = newFleet(t, w.to, all, w.keys, cfg)
	w.fleet.GoTo(w.nodes)
	w.rest()
	return w
}

func nodeName(i int) string { return "n" + strconv.Itoa(i) }

// newNode prepares a node, which does not run yet.
func (w *World) newNode(host loopback, i int) *Node {
	w.t.Helper()
	n := &Node{
		t: w.t, name: nodeName(i), binary: w.cfg.Binary, dir: w.cfg.Dir, to: w.to,
		addr: host.port(10_000 + i), admin: host.port(10_100 + i),
	}
	if err := os.Mkdir(n.home(), 0o755); err != nil {
		w.t.Fatalf("%v", err)
	}
	n.origin = newProxy(w.t, w.origin.Addr())
	newSocket(w.t, n.home(), n.origin.addr())
	w.t.Cleanup(n.stop)
	peer := host.port(10_500 + i)
	if w.cfg.Tier {
		n.peer = newProxy(w.t, peer)
		if w.cfg.Cluster { // clients of a cluster are sent the addresses of its servers
			n.redisAt = fmt.Sprintf("url: %q, mode: cluster", w.shards.url())
		} else {
			n.redis = newProxy(w.t, w.redis.Addr())
			n.redisAt = fmt.Sprintf("url: \"redis://%s\"", n.redis.addr())
		}
	}
	if err := os.WriteFile(filepath.Join(w.cfg.Dir, n.name+".yaml"), []byte(w.cfg.nodeConfig(n, peer)), 0o644); err != nil {
		w.t.Fatalf("%v", err)
	}
	return n
}

// join starts a further node, part ends it.
func (w *World) join() {
	w.t.Helper()
	w.spare.Start()
	w.nodes = append(w.nodes, w.spare)
	w.fleet.GoTo(w.nodes)
}

func (w *World) part() {
	w.t.Helper()
	w.nodes = w.nodes[:w.cfg.Nodes]
	w.fleet.GoTo(w.nodes)
	w.spare.Terminate()
}

func (w *World) startOrigin() {
	w.t.Helper()
	if err := w.origin.Start(); err != nil {
		w.t.Fatalf("%v", err)
	}
}
