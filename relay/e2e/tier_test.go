//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// tierLease is the lease of members in these tests.
const tierLease = 5 * time.Second

// TestTierOnACluster: two nodes that share a Redis cluster are one tier. While a
// master of the cluster is dead, and the cluster with it, clients notice nothing,
// and the tier stays one; afterwards new nodes are seen again.
func TestTierOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	tier := startTier(t, cluster.URL(), "XDSRELAY_TIER_REDIS_MODE=cluster")
	master := cluster.Of(tier.prefix + ":{members}")
	step(t, "nodes and clients start", tier.settle)
	step(t, "all nodes subscribe to sharded channels", func() error {
		return tier.eventually(func() error {
			records := fmt.Sprint(master.Do("HVALS", tier.prefix+":{members}"))
			if n := strings.Count(records, `"sharded":true`); n != len(tier.nodes) {
				return fmt.Errorf("%d nodes say that they are: %s", n, records)
			}
			return nil
		})
	})
	step(t, "a master of the cluster dies, and leases run out", func() error {
		master.Kill()
		if err := tier.follow(); err != nil {
			return err
		}
		<-time.After(tierLease)
		return tier.settle()
	})
	step(t, "the master comes back, knowing nothing, and a node joins", func() error {
		master.Start()
		cluster.Await()
		tier.start("c")
		return tier.settle()
	})
	step(t, "clients have noticed nothing", tier.unharmed)
}

// TestTierThroughAFailover: two nodes that share a Redis with sentinels are one tier.
// The master dies, and its replica takes over: clients notice nothing, the tier
// stays one, and the nodes renew their leases at the new master.
func TestTierThroughAFailover(t *testing.T) {
	redis := redistest.StartSentinels(t)
	tier := startTier(t, redis.URL(), "XDSRELAY_TIER_REDIS_MODE=sentinel", "XDSRELAY_TIER_REDIS_MASTER_NAME="+redistest.MasterName)
	step(t, "nodes and clients start", tier.settle)
	step(t, "the master dies", func() error {
		redis.Master.Kill()
		if err := tier.follow(); err != nil {
			return err
		}
		redis.AwaitFailover()
		return tier.settle()
	})
	step(t, "the nodes are found at the new master", func() error {
		redis.Replica.Do("DEL", tier.prefix+":{members}")
		return tier.eventually(func() error {
			if n := redis.Replica.Do("HLEN", tier.prefix+":{members}"); n != int64(len(tier.nodes)) {
				return fmt.Errorf("it knows %v nodes, want %d", n, len(tier.nodes))
			}
			return nil
		})
	})
	step(t, "a node joins", func() error {
		tier.start("c")
		return tier.settle()
	})
	step(t, "clients have noticed nothing", tier.unharmed)
}

// tier is nodes that share a Redis, each with a client of each variant. It belongs
// to the test's goroutine.
type tier struct {
	t      *testing.T
	ctx    context.Context
	prefix string // of names in Redis
	origin *xdstest.ControlPlane
	redis  string // its URL
	env    []string

	nodes   []relayNode
	names   []string
	clients []*xdstest.Auto
	state   int // of the origin
}

// startTier starts two nodes and their clients.
func startTier(t *testing.T, redis string, env ...string) *tier {
	t.Helper()
	s := &tier{t: t, ctx: contextOf(t), prefix: "e2e", origin: xdstest.NewControlPlane(t, nil), redis: redis, env: env}
	s.serve()
	s.start("a")
	s.start("b")
	return s
}

// start starts a node and its clients.
func (s *tier) start(name string) {
	s.t.Helper()
	node := relayNode{
		program: program(s.t), listen: freeAddress(s.t), admin: freeAddress(s.t), origin: s.origin.Addr(), variant: "delta", key: "node.cluster",
		flags: []string{"--name", name, "--redis", s.redis, "--peer", freeAddress(s.t)},
		env:   append([]string{"XDSRELAY_TIER_REDIS_PREFIX=" + s.prefix, "XDSRELAY_TIER_LEASE=" + tierLease.String(), "XDSRELAY_TIER_BALANCE_ENABLED=false"}, s.env...),
	}
	node.start(s.ctx, s.t, "node "+name)
	s.nodes = append(s.nodes, node)
	s.names = append(s.names, name)
	for _, variant := range xdstest.Variants(xdstest.ClusterType) {
		client := xdstest.StartAuto(s.t, xdstest.AutoConfig{Addr: node.listen, Variant: variant, Node: xdstest.Node(name+"-"+variant.String(), cluster)})
		client.Subscribe(xdstest.ClusterType)
		s.clients = append(s.clients, client)
	}
}

// serve makes the origin serve another state.
func (s *tier) serve() {
	s.state++
	s.origin.SetSnapshot(s.t, cluster, strconv.Itoa(s.state), xdstest.Cluster(s.cluster(), time.Second))
}

// cluster is the only one of the origin's state.
func (s *tier) cluster() string { return "state-" + strconv.Itoa(s.state) }

// follow changes the origin's state and waits until all clients have it.
func (s *tier) follow() error {
	s.serve()
	return s.eventually(func() error {
		for _, c := range s.clients {
			if held := c.Held(xdstest.ClusterType); len(held) != 1 || !hasName(held, s.cluster()) {
				return fmt.Errorf("%s does not hold %s alone", c, s.cluster())
			}
		}
		return nil
	})
}

func hasName(held map[string]xdstest.Held, name string) bool {
	_, ok := held[name]
	return ok
}

// settle waits until all nodes see one another and the origin has one stream, and
// then for a change to reach all clients.
func (s *tier) settle() error {
	if err := s.eventually(s.one); err != nil {
		return err
	}
	return s.follow()
}

// one returns an error unless the nodes are one tier.
func (s *tier) one() error {
	for i, n := range s.nodes {
		seen, err := n.members(s.ctx)
		if err != nil {
			return err
		}
		if !slices.Equal(seen, s.names) {
			return fmt.Errorf("%s sees the members %v, want %v", s.names[i], seen, s.names)
		}
	}
	if open := s.origin.Counts().Open; open != 1 {
		return fmt.Errorf("the control plane has %d streams for one key, want 1", open)
	}
	return s.nodes[0].follows(s.ctx)
}

// unharmed returns an error if a client has lost its stream, or was told what breaks
// a rule.
func (s *tier) unharmed() error {
	for _, c := range s.clients {
		if stats := c.Stats(); stats.Streams != 1 || !c.Connected() {
			return fmt.Errorf("%s opened %d streams, want 1; the last ended: %w", c, stats.Streams, stats.LastEnd)
		}
		if v := c.Violations(); len(v) > 0 {
			return fmt.Errorf("%s met %q", c, v)
		}
	}
	return nil
}

// eventually waits until condition returns nil.
func (s *tier) eventually(condition func() error) error {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	return poll(ctx, condition)
}

// members asks the node's admin address who is there, by name.
func (n relayNode) members(ctx context.Context) ([]string, error) {
	var all struct {
		Members []struct {
			Name string `json:"name"`
		} `json:"members"`
	}
	if err := n.get(ctx, "/tier/nodes", &all); err != nil {
		return nil, err
	}
	var names []string
	for _, m := range all.Members {
		names = append(names, m.Name)
	}
	return names, nil
}

// follows asks the node's admin address for the keys of the tier, and returns an error unless each
// key has an owner, and all other nodes that have the key got everything from this owner. A node
// that has ended its stream to the control plane, and has none to the owner yet, gets the next
// change in the first response of the owner, which has no trace.
func (n relayNode) follows(ctx context.Context) error {
	var all ops.Keys
	if err := n.get(ctx, "/tier/keys", &all); err != nil {
		return err
	}
	for _, k := range all.Keys {
		for _, on := range k.Nodes {
			isOwner := on.Node == k.Owner
			switch {
			case isOwner && (on.State != "owner" || on.Peers != len(k.Nodes)-1):
				return fmt.Errorf("the owner %s of %s is %s of %d nodes, want owner of %d", on.Node, k.Key, on.State, on.Peers, len(k.Nodes)-1)
			case !isOwner && (on.State != "follower" || on.From != k.Owner):
				return fmt.Errorf("node %s is %s of %q with %s, want follower of %s", on.Node, on.State, on.From, k.Key, k.Owner)
			case !on.Connected || len(on.States) != 1 || on.States[ops.Synced] == 0:
				return fmt.Errorf("node %s with %s: connected is %v, the clients are %v, want true and only SYNCED ones", on.Node, k.Key, on.Connected, on.States)
			}
		}
	}
	return nil
}

// get asks the node's admin address for JSON.
func (n relayNode) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("%s of %s: %w", path, n.admin, err)
	}
	return nil
}
