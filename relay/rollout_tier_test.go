package relay_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
	"xdsrelay/shard/redistest"
)

// stagedTier is a tier with a key that has a rollout policy. The embedded node is the one that operators
// ask.
type stagedTier struct {
	*staged

	redis *redistest.Server
	nodes []running
	names []string
}

// stageTier starts nodes a, b, … with some clients each. Without is the index of a node that gets none, or
// -1.
func stageTier(t *testing.T, variant config.Variant, nodes, clients, without int, edit func(*config.RolloutPolicy)) *stagedTier {
	t.Helper()
	return stageTierWith(t, variant, nodes, clients, without, edit, func(*config.Config) {})
}

// stageTierWith is stageTier with another configuration.
func stageTierWith(t *testing.T, variant config.Variant, nodes, clients, without int, edit func(*config.RolloutPolicy), configure func(*config.Config)) *stagedTier {
	t.Helper()
	w := &stagedTier{
		staged: &staged{t: t, origin: xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)},
		redis:  redistest.Start(t, redistest.Config{}),
	}
	policy := quickPolicy()
	if edit != nil {
		edit(&policy)
	}
	token := tokenFile(t)
	w.origin.Set("demo", w.revision("a")...)
	for i := range nodes {
		cfg := testConfig()
		cfg.Node.Name = string(rune('a' + i))
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, variant
		cfg.LastKnownGood.Store, cfg.LastKnownGood.EncryptionKeysFile, cfg.LastKnownGood.WriteDelay = config.StoreRedis, keysOf(t, "one"), 100*time.Millisecond
		cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout, cfg.Tier.Peer.Address = w.redis.URL(), xdstest.Patience, "127.0.0.1:0"
		cfg.Tier.Balance.Enabled, cfg.Tier.Peer.TokenFile = false, token
		cfg.Rollout.Policies, cfg.Rollout.Budget = []config.RolloutPolicy{policy}, []string{"100%"}
		cfg.Aggregation.Rules = []aggregation.Rule{{Name: "web", Key: "node.cluster", Rollout: "mine"}}
		configure(cfg)
		w.names = append(w.names, cfg.Node.Name)
		w.nodes = append(w.nodes, startWith(t, cfg, relay.Options{}))
	}
	for i, n := range w.nodes {
		w.running = n
		for c := range clients {
			if i != without {
				w.join(fmt.Sprintf("client-%s-%d", w.names[i], c))
			}
		}
	}
	w.all("the first configuration", w.has("a"))
	t.Cleanup(func() {
		if t.Failed() {
			for _, d := range w.status().History {
				t.Logf("%+v", d)
			}
		}
	})
	return w
}

// owner returns the index of the node that owns the key.
func (w *stagedTier) owner() int {
	var all []shard.Member
	for _, name := range w.names {
		all = append(all, shard.Member{Name: name})
	}
	m, _ := shard.NewView(all).Owner("demo")
	return slices.Index(w.names, m.Name)
}

func (w *stagedTier) checkAll() {
	w.t.Helper()
	for _, n := range w.nodes {
		w.running = n
		w.check()
	}
}

// TestTierPolicyGood: in a tier, scouts and steps are chosen of the clients of all nodes, and all of them
// get the revision in the end. It does not matter which node operators ask, nor whether the owner of the
// key has clients itself.
func TestTierPolicyGood(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		for _, without := range []int{-1, ownerOf("demo", "a", "b", "c")} {
			w := stageTier(t, variant, 3, 4, without, nil)
			all := len(w.clients)
			w.origin.Set("demo", w.revision("b")...)
			is := w.waitState("Stepping Bake")
			if n := w.count(w.has("b")); n > all/2 || is.Affected != all {
				t.Errorf("%d of %d clients have the revision in the step of a half: %+v", n, all, is)
			}
			w.all("the revision", w.has("b"))
			is = w.waitState("Idle")
			if is.Stable == "" || is.Good != is.Stable {
				t.Errorf("after the final bake: %+v", is)
			}
			w.checkAll()
		}
	})
}

// ownerOf returns the index of the owner of a key among nodes.
func ownerOf(key string, names ...string) int {
	var all []shard.Member
	for _, name := range names {
		all = append(all, shard.Member{Name: name})
	}
	m, _ := shard.NewView(all).Owner(key)
	return slices.Index(names, m.Name)
}

// TestTierPolicyRejected: a revision that clients of any node reject goes back, and reaches no other client.
func TestTierPolicyRejected(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		w := stageTier(t, variant, 2, 4, ownerOf("demo", "a", "b"), nil) // only a follower has clients
		w.origin.Set("demo", w.revision("poison")...)
		is := w.waitState("Held")
		if len(is.Rejections) == 0 || len(is.Refused) != 1 {
			t.Errorf("held: %+v", is)
		}
		w.all("the stable revision", w.has("a"))
		xdstest.Eventually(t, "the owner sends a NACK", func() bool { return w.origin.Counts().Nacks == 1 })
		w.origin.Remove("demo", xdstest.ClusterType, "poison")
		w.origin.Set("demo", w.revision("b")...)
		w.all("what the control plane sends instead", w.has("b"))
		w.waitState("Idle")
		if n := w.origin.Counts().Nacks; n != 1 {
			t.Errorf("the control plane got %d NACKs", n)
		}
		w.checkAll()
	})
}

// TestTierPolicyOrders: orders are carried out by the owner, whichever node gets them.
func TestTierPolicyOrders(t *testing.T) {
	w := stageTier(t, config.Delta, 2, 3, -1, func(p *config.RolloutPolicy) { p.Mode = "manual" })
	w.running = w.nodes[1-w.owner()]
	w.origin.Set("demo", w.revision("b")...)
	w.waitState("Scouting Approval")
	w.order("approve", http.StatusOK)
	w.waitState("Stepping Approval")
	w.order("freeze", http.StatusOK)
	w.order("approve", http.StatusConflict)
	w.order("unfreeze", http.StatusOK)
	w.order("promote", http.StatusOK)
	w.all("the revision", w.has("b"))
	w.waitState("Idle")
	w.order("undo", http.StatusOK)
	w.all("the revision before", w.has("a"))
	w.waitState("Held")
	w.checkAll()
}

// TestTierPolicyOwnerEnds: if the owner of a key ends in the middle of a rollout, another node continues:
// canaries keep the revision, no other client gets it meanwhile, and then all do.
func TestTierPolicyOwnerEnds(t *testing.T) {
	without := ownerOf("demo", "a", "b", "c")
	w := stageTier(t, config.Delta, 3, 4, without, func(p *config.RolloutPolicy) {
		p.Steps = []config.RolloutStep{{Share: 0.25, Bake: 3 * time.Second}}
	})
	w.running = w.nodes[(without+1)%3]
	w.origin.Set("demo", w.revision("b")...)
	before := w.waitState("Stepping Bake").Canaries
	w.nodes[without].stop()
	w.nodes[without].ended(t)
	w.nodes, w.names = slices.Delete(w.nodes, without, without+1), slices.Delete(w.names, without, without+1)
	xdstest.Eventually(t, "another node to continue", func() bool {
		n, state := w.count(w.has("b")), w.status().State
		if n > before && state != "Proving Bake" && state != "Idle" {
			t.Fatalf("%d clients have the revision, %d may: %+v", n, before, w.status())
		}
		return state == "Proving Bake" || state == "Idle"
	})
	w.all("the revision", w.has("b"))
	w.waitState("Idle")
	w.checkAll()
}

// TestTierPolicyWithoutRedis: while Redis is away, no further client gets a revision; afterwards the rollout
// continues, also if Redis has lost everything.
func TestTierPolicyWithoutRedis(t *testing.T) {
	w := stageTier(t, config.Delta, 2, 4, -1, nil)
	w.origin.Set("demo", w.revision("b")...)
	is := w.waitState("Stepping Bake")
	w.redis.Flush()
	w.redis.Pause()
	xdstest.Eventually(t, "the bake to end", func() bool { return w.status().State != "Stepping Bake" })
	if n := w.count(w.has("b")); n > is.Canaries {
		t.Errorf("%d clients have the revision, %d may", n, is.Canaries)
	}
	w.redis.Resume()
	w.all("the revision", w.has("b"))
	w.waitState("Idle")
	w.checkAll()
}

// TestTierPolicyUnproven: a node whose peer port does not prove who sends something takes no revision from
// there: anyone who reaches it could give content to clients.
func TestTierPolicyUnproven(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout, cfg.Tier.Peer.Address = redis.URL(), xdstest.Patience, "127.0.0.1:0"
	n := start(t, cfg)
	cc, err := grpc.NewClient(n.PeerAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	for _, path := range []string{"rollouts?message=e30", "rollout-order?what=freeze&key=demo"} {
		var answer wrapperspb.BytesValue
		err := cc.Invoke(t.Context(), "/xdsrelay.peer.v1.Peer/Ask", wrapperspb.String(path), &answer, grpc.WaitForReady(true))
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", path, err)
		}
	}
}
