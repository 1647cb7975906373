package robust

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"xdsrelay/relay/robust/origin"
)

// `make soak` and `make tier-takeover` set these.
var (
	soakFor  = flag.Duration("soak", 0, "run for this long, and write a report")
	soakOut  = flag.String("soak.out", "", "the folder of the report")
	soakSeed = flag.Uint64("soak.seed", 0, "the seed of the plan; 0 takes one from the clock")
	soakSotW = flag.Bool("soak.sotw", false, "the origin speaks SotW")
	soakTier = flag.Bool("soak.tier", true, "the nodes are one tier")
	soakKept = flag.String("soak.store", "", "where the last known good state is kept: directory, redis or, if empty, nowhere")
	soakRoll = flag.Bool("soak.rollouts", false, "keys have a rollout policy, and faults happen during rollouts")
	soakSafe = flag.Bool("soak.guard", false, "nodes hold back mass removals")
	soakAt   = flag.String("soak.commit", "", "the commit of the relay, for the report")
	soakMode = flag.String("soak.redis", "one", "the Redis of the tier: one server, or a cluster of three masters with a replica each")
	nodes    = flag.Int("soak.nodes", 4, "how many nodes there are")
	clients  = flag.Int("soak.clients", 240, "how many clients there are")

	relayBinary = flag.String("relay", "", "a relay that is built already")
	idleOut     = flag.String("idle.out", "", "measure a tier at rest, and write a report into this folder")
	upgradeFrom = flag.String("upgrade.from", "", "the relay of the previous version, from which a tier is upgraded")
	takeoverOut = flag.String("takeover.out", "", "measure take-overs, and write a report into this folder")
)

// TestShort is the robustness suite in short: fixed seeds, a tier of three nodes and
// nodes on their own, origins of both variants, and a Redis Cluster with two failovers.
func TestShort(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of real processes")
	}
	binary := build(t)
	for _, cfg := range []Config{
		{Seed: 1, Nodes: 3, Clients: 96, Keys: 6, Size: 8, Rounds: 8, Tier: true, Store: "directory", Guard: true},
		{Seed: 2, Nodes: 3, Clients: 96, Keys: 6, Size: 8, Rounds: 10, Tier: true, Store: "redis", SotW: true},
		{Seed: 3, Nodes: 2, Clients: 64, Keys: 4, Size: 8, Rounds: 5},
		{Seed: 1156, Nodes: 3, Clients: 48, Keys: 3, Size: 8, Rounds: 2, Tier: true, Cluster: true, Store: "redis"},
	} {
		t.Run(title(cfg), func(t *testing.T) {
			cfg.Binary = binary
			if report := run(t, cfg); cfg.Cluster && report.LongestAway == 0 {
				t.Error("no replica took over: the plan has changed, and another seed has to be found")
			}
		})
	}
}

// TestSoak is the same for as long as -soak says, with more of all.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("make soak runs it")
	}
	cfg := Config{
		Seed: *soakSeed, Nodes: *nodes, Clients: *clients, Keys: 8, Size: 12, For: *soakFor, SotW: *soakSotW, Tier: *soakTier, Store: *soakKept, Guard: *soakSafe,
		Cluster: *soakMode == "cluster",
		Binary:  build(t),
	}
	if !slices.Contains([]string{"one", "cluster"}, *soakMode) {
		t.Fatalf("-soak.redis is %q, expected one or cluster", *soakMode)
	}
	if cfg.Seed == 0 {
		cfg.Seed = uint64(time.Now().Unix())
	}
	if cfg.Rollouts = *soakRoll; cfg.Rollouts {
		if !cfg.Tier || cfg.Store != "redis" {
			t.Fatal("-soak.rollouts needs a tier, and -soak.store redis: without it, nodes that start have nothing with which to compare a revision")
		}
		cfg.Keys = 4 // each with enough clients for a step
		w := start(t, cfg)
		for _, wrong := range w.RolloutsUnderFaults() {
			t.Error(wrong)
		}
		return
	}
	report := run(t, cfg)
	if *soakOut == "" {
		return
	}
	report.Commit = *soakAt
	if err := report.Write(*soakOut, report.Name()); err != nil {
		t.Error(err)
	}
}

// TestTakeover measures what the loss of a node costs, with the default lease and
// shorter ones, and writes it to -takeover.out.
func TestTakeover(t *testing.T) {
	if *takeoverOut == "" {
		t.Skip("make tier-takeover runs it")
	}
	cfg := Config{
		Seed: 1, Nodes: 3, Clients: 240, Keys: 24, Size: 25, Tier: true, OwnerTimeout: 2 * time.Second, Plain: true, Binary: build(t),
	}
	report := &TakeoverReport{
		Nodes: cfg.Nodes, Clients: cfg.Clients, Keys: cfg.Keys, Resources: cfg.Size * len(origin.Types), OwnerTimeout: cfg.OwnerTimeout,
		Started: time.Now().UTC(),
	}
	for _, cfg.Lease = range []time.Duration{10 * time.Second, 5 * time.Second, 2 * time.Second} {
		t.Run(cfg.Lease.String(), func(t *testing.T) {
			w := start(t, cfg)
			report.Takeovers = append(report.Takeovers, w.Takeovers(2)...)
			if len(w.found) > 0 {
				t.Error(w.explain())
			}
		})
	}
	if err := report.Write(*takeoverOut, "tier-takeover-"+report.Started.Format(time.DateOnly)); err != nil {
		t.Error(err)
	}
}

// TestIdle measures what a tier does while nothing changes, and writes it to -idle.out. Calls
// to Redis are what docs/operate/sizing.md says, or fewer.
func TestIdle(t *testing.T) {
	if *idleOut == "" {
		t.Skip("make tier-idle runs it")
	}
	w := start(t, Config{
		Seed: 1, Nodes: 10, Clients: 2000, Keys: 200, Size: 5, Tier: true, OwnerTimeout: 2 * time.Second, Lease: 10 * time.Second, Plain: true, Binary: build(t),
	})
	<-time.After(3 * time.Minute) // until writes are confirmed
	r := w.Idle(2 * time.Minute)
	t.Log(r.Page())
	if most := float64(r.Nodes)*1.2 + float64(r.Keys)/400; r.All() > most {
		t.Errorf("%.1f calls to Redis in a second, expected %.1f at most", r.All(), most)
	}
	if len(w.found) > 0 {
		t.Error(w.explain())
	}
	if err := r.Write(*idleOut, "tier-idle-"+r.Started.Format(time.DateOnly)); err != nil {
		t.Error(err)
	}
}

func title(cfg Config) string {
	text := "alone"
	if cfg.Tier {
		text = "tier"
	}
	if cfg.Cluster {
		text += ", Redis Cluster"
	}
	if cfg.SotW {
		return text + ", sotw"
	}
	return text + ", delta"
}

// run runs a configuration.
func run(t *testing.T, cfg Config) *Report {
	t.Helper()
	w := start(t, cfg)
	report := w.Run()
	if len(w.found) > 0 {
		t.Error(w.explain())
	}
	t.Logf("%d rounds in %.0fs: %+v", len(report.Rounds), report.Seconds, report.Totals)
	return report
}

// start starts a world in a folder that stays only where the test fails.
func start(t *testing.T, cfg Config) *World {
	t.Helper()
	cfg.Logf = t.Logf
	dir, err := os.MkdirTemp("", "robust") //nolint:usetesting // It stays after a failure.
	if err != nil {
		t.Fatal(err)
	}
	cfg.Dir = dir
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; the recording and the logs are in %s", cfg.Seed, dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return New(t, cfg)
}

// build builds the relay once.
func build(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs all of 127/8, which only Linux has")
	}
	if *relayBinary != "" {
		return *relayBinary
	}
	binary, err := builtOnce()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// builtIn is the folder of the relay that tests build, which TestMain removes; empty if they
// have built none.
var builtIn string

// builtOnce builds the relay for all tests: linking it takes longer than some of them.
var builtOnce = sync.OnceValues(func() (string, error) {
	here, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	if builtIn, err = os.MkdirTemp("", "robust-relay"); err != nil {
		return "", err
	}
	return Build(context.Background(), here, builtIn)
})
