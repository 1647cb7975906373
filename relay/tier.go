package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/tier"
	"xdsrelay/shard"
	"xdsrelay/shard/lease"
	"xdsrelay/shard/store"
)

// buildTier makes this node's part of the tier: where each key comes from. dial is
// added to what other nodes are connected with.
func (n *Node) buildTier(dial []grpc.DialOption) (err error) {
	cfg := tier.Config{Origin: n.tierOrigin(), Legs: n.origins.legs, OwnerTimeout: n.cfg.Tier.OwnerTimeout, Lease: n.cfg.Tier.Lease, Clock: n.clock, Logger: n.part(logs.Tier)}
	self := shard.Member{Name: n.name, Incarnation: rand.Text(), Version: n.version, Since: n.clock.Now(), Stamps: true}
	if n.cfg.Tier.On() {
		if n.peers, err = n.newPeerPort(); err != nil {
			return err
		}
		self.Peer = advertised(n.cfg.Tier.Peer, n.PeerAddr())
		if n.cfg.Node.Name == "" && n.cfg.Tier.Redis.URL != "" {
			// Two nodes of one host are told apart.
			_, port, _ := net.SplitHostPort(self.Peer)
			n.name += "-" + port
			self.Name = n.name
			n.events.SetNode(n.name)
		}
		n.links = tier.NewPeers(tier.PeersConfig{
			Self: n.name, Credentials: n.peers.credentials, Token: n.peers.token, Timeout: n.cfg.Tier.OwnerTimeout,
			DialOptions: dial, Tracer: n.metrics.Tracer(), Meter: n.metrics.Meter(), Logger: n.part(logs.Tier),
		})
		n.add(part{stop: n.links.Close})
		cfg.Peers, cfg.PeersProven = n.links, n.peers.proven
	}
	if n.members, err = n.join(self); err != nil {
		return err
	}
	n.add(part{stop: n.members.Close})
	cfg.Members = n.members
	n.addHeads(&cfg)
	n.addRollouts(&cfg)
	if err := n.addLastGood(&cfg); err != nil {
		return err
	}
	if n.tier, err = tier.New(cfg); err != nil {
		return err
	}
	if n.cfg.Tier.On() {
		n.add(part{run: n.watchDraining})
	}
	n.add(part{
		watch: func(ctx context.Context) {
			n.tier.WatchPulse(ctx, tier.Pulse{Beat: n.cache.Beat, Doubt: n.cache.Doubt, Slept: n.slept, ClockSet: n.clockSet})
		},
		stop: n.tier.Close,
	})
	return nil
}

// join makes this node a member of what the configuration names.
func (n *Node) join(self shard.Member) (shard.Members, error) {
	t := n.cfg.Tier
	switch {
	case n.enlist != nil:
		return n.enlist(self), nil
	case t.Redis.URL != "":
		var err error
		if n.store, err = n.openStore(t.Redis, n.metrics.Meter()); err != nil {
			return nil, fmt.Errorf("tier.redis: %w", err)
		}
		n.add(part{stop: func() { _ = n.store.Close() }}) // nothing is lost where it fails
		members, err := lease.Join(lease.Config{Self: self, Store: n.store, Lease: t.Lease, Token: n.peers.door.token, Logger: n.part(logs.Tier)})
		if err != nil {
			return nil, err // not members, which would not be nil
		}
		n.foreign = members.Foreign
		return members, nil
	case len(t.Nodes) > 0:
		cfg := shard.StaticConfig{Self: self, Lease: t.Lease, Probe: n.links.Status, Logger: n.part(logs.Tier)}
		for _, text := range t.Nodes {
			if m := memberOf(text); m.Name != self.Name {
				cfg.Others = append(cfg.Others, m)
			}
		}
		return shard.NewStatic(cfg)
	}
	return shard.NewSolo(self), nil
}

// memberOf reads an entry of tier.nodes.
func memberOf(text string) shard.Member {
	name, address, _ := strings.Cut(text, "=")
	return shard.Member{Name: name, Peer: address}
}

// openStore makes the client of the Redis that cfg names.
func (n *Node) openStore(cfg config.Redis, meter metric.Meter) (*store.Store, error) {
	var secured func(host string) *tls.Config
	if cfg.TLS.On() {
		client, err := n.secureClient(cfg.TLS)
		if err != nil {
			return nil, err
		}
		n.certs.watch("tier.redis", client.Validity)
		secured = client.Config
	}
	return store.New(store.Config{
		URL: cfg.URL, Mode: store.Mode(cfg.Mode), Master: cfg.MasterName, TLS: secured, Dial: n.dial,
		PasswordFile: cfg.PasswordFile, SentinelPasswordFile: cfg.SentinelPasswordFile,
		Prefix: cfg.Prefix, Timeout: cfg.Timeout, Logger: n.part(logs.Redis), Meter: meter,
	})
}

// tierOrigin is where keys come from that this node owns.
func (n *Node) tierOrigin() tier.Origin {
	o := tier.Origin{Run: n.origins.Run}
	if cp := n.origins.loadOrigin(); cp != nil {
		o.Report = cp.Report
		o.Reach, o.AwaitReady = cp.Reach, cp.AwaitReady
	}
	return o
}

// PeerAddr is the address of the port for other nodes, with the real port; empty if
// off.
func (n *Node) PeerAddr() string {
	if n.peers == nil || n.peers.listener == nil {
		return ""
	}
	return n.peers.listener.Addr().String()
}

// PeerMethods are the methods of the port for other nodes, like /service/method, sorted.
func (n *Node) PeerMethods() (all []string) {
	if n.peers == nil || n.peers.server == nil {
		return nil
	}
	for service, info := range n.peers.server.GetServiceInfo() {
		for _, m := range info.Methods {
			all = append(all, "/"+service+"/"+m.Name)
		}
	}
	slices.Sort(all)
	return all
}

// PeerQuestions are the questions of other nodes that this one answers, with the parameters
// that each reads.
func (n *Node) PeerQuestions() map[string][]string { return n.tier.Questions() }

// advertised is where other nodes reach the port that is bound at an address.
func advertised(cfg config.Peer, bound string) string {
	at := cmp.Or(cfg.AdvertiseAddress, cfg.Address)
	host, port, err := net.SplitHostPort(at)
	if err != nil || port != "0" {
		return at
	}
	if _, port, err = net.SplitHostPort(bound); err != nil {
		return at
	}
	return net.JoinHostPort(host, port)
}

// nodeName is what the configuration calls the node: by name, or by its address in
// the list of members; and otherwise the name of the host.
func nodeName(cfg *config.Config) (string, error) {
	if cfg.Node.Name != "" {
		return cfg.Node.Name, nil
	}
	if len(cfg.Tier.Nodes) > 0 {
		at := cmp.Or(cfg.Tier.Peer.AdvertiseAddress, cfg.Tier.Peer.Address)
		for _, text := range cfg.Tier.Nodes {
			if m := memberOf(text); m.Peer == at {
				return m.Name, nil
			}
		}
		return "", fmt.Errorf("node.name is empty, and none of tier.nodes has the address of this node, %s: expected one of both", at)
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("node.name is empty, and the host has no name: %w", err)
	}
	return host, nil
}
