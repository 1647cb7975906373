package sim

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// node is a machine with a relay on it: the whole product, as its program assembles it,
// but for sockets and the disk.
type node struct {
	world *World // fixed
	name  string // fixed
	ip    string // fixed
	disk  *disk  // fixed
	clock clock  // guards itself

	// All below belongs to the goroutine of the world.
	host   *xdstest.Host
	relay  *relay.Node // nil while it does not run
	cancel context.CancelFunc
	done   <-chan error
	since  time.Time // when it started, or ended
	downBy int       // the event that ended it
	lost   bool      // it ended by a loss of power
	cutOff bool      // something is wrong between it and the clients
	// blind says that it started while Redis was ill or out of its reach, and so may know no other node.
	blind bool
}

// ports of every node.
const (
	clientPort = "18000"
	pollPort   = "18080"
	adminPort  = "19000"
	peerPort   = "18100"
)

func (n *node) at(port string) string { return net.JoinHostPort(n.ip, port) }

// start starts it on a machine that has lost nothing but what ran on it.
func (n *node) start() {
	n.world.t.Helper()
	if n.host != nil {
		n.host.Vanish(true) // who still waits for the machine as it was learns that it was restarted
	}
	n.host = n.world.network.memory.NewHost(n.name, n.ip)
	began := time.Now()
	made, err := relay.New(n.config(), relay.Options{
		Version: "v-sim", Listen: n.host.Listen, Dial: n.host.Dial, Logger: n.world.logger(n.name), Disk: n.disk.boot(n.lost), Clock: n.clock.now,
	})
	if err != nil {
		n.world.t.Fatalf("node %s: %v", n.name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- made.Run(ctx) }()
	n.relay, n.cancel, n.done, n.since, n.blind = made, cancel, done, began, !n.world.redisWell() || !n.world.network.fine(n.name, redisHost)
	n.world.to.Add(record.Event{Kind: record.NodeUp, Node: n.name})
	n.cutOff = false
	n.world.disturbed(nil)
}

// kill ends it as kill -9 does, or with reset false as a power cut does. What is left of
// it reaches nobody, and ends by itself.
func (n *node) kill(event int, reset bool) {
	n.down(event, "killed")
	n.lost = !reset
	n.disk.boot(false) // nothing is written any more
	n.host.Vanish(reset)
	n.cancel()
	ended, done := make(chan error, 1), n.done
	go func() {
		<-done //nolint:errcheck // its ports are gone with the machine, which it may take for a fault
		ended <- nil
	}()
	n.world.ending(n.name, ended)
}

// drain ends it as SIGTERM does.
func (n *node) drain(event int) {
	n.down(event, "drained")
	n.lost = false
	n.cancel()
	n.world.ending(n.name, n.done)
}

func (n *node) down(event int, why string) {
	n.world.to.Add(record.Event{Kind: record.NodeDown, Node: n.name, Why: why})
	n.relay, n.since, n.downBy = nil, time.Now(), event
	n.clock.replaced()
}

// ranLately reports whether it runs, or has ended a moment ago: other nodes still have what they got
// from it.
func (n *node) ranLately() bool { return n.relay != nil || time.Since(n.since) < calm }

// ready reports whether clients should connect, as the node says.
func (n *node) ready() bool { return n.relay != nil && n.relay.Ready() == nil }

// config is the product's default, and what this world needs.
func (n *node) config() *config.Config {
	s := n.world.plan.Setup
	cfg := config.Default()
	cfg.Node.Name = n.name
	cfg.Listener.Address, cfg.Admin.Address = n.at(clientPort), n.at(adminPort)
	if s.Polls > 0 {
		cfg.REST.Address = n.at(pollPort)
	}
	cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{n.world.originAddr}, config.Delta
	if s.SotW {
		cfg.Upstream.Variant = config.SotW
	}
	cfg.Tier.Redis.URL = "redis://" + redisAddr
	cfg.Tier.Peer.Address, cfg.Tier.Peer.TokenFile = n.at(peerPort), n.world.tokenFile
	cfg.Tier.Balance.Enabled = false
	cfg.RemovalGuard.MaxPercent = 0
	if hold := s.hold(); hold > 0 {
		cfg.RemovalGuard.MaxPercent, cfg.RemovalGuard.Hold = 50, hold
	}
	switch s.Kept {
	case "directory":
		cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory = config.StoreDirectory, "/kept"
	case "redis":
		cfg.LastKnownGood.Store = config.StoreRedis
	}
	if s.Rollouts {
		stage(cfg)
	}
	cfg.Drain.Duration, cfg.Drain.Grace = 2*time.Second, time.Second
	return cfg
}

// guardHold is for how long removals are held back.
const guardHold = time.Minute

// hold is for how long mass removals are held back; 0 if they are not.
func (s Setup) hold() time.Duration {
	if s.Guard {
		return guardHold
	}
	return 0
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }
func nodeIP(i int) string   { return fmt.Sprintf("127.0.0.%d", 10+i) }

// logger is where a part of the world logs.
func (w *World) logger(name string) *slog.Logger {
	if w.cfg.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(w.cfg.Log, nil)).With("on", name)
}
