package relay

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"xdsrelay/fanout"
	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/config"
	"xdsrelay/relay/csds"
	"xdsrelay/relay/events"
	"xdsrelay/relay/hooks"
	"xdsrelay/relay/load"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/rollouts"
	"xdsrelay/relay/secure"
	"xdsrelay/relay/telemetry"
	"xdsrelay/relay/tier"
	"xdsrelay/shard"
	"xdsrelay/shard/head"
	"xdsrelay/shard/lastgood"
	"xdsrelay/shard/store"
)

// Options are what a node needs beside its configuration.
type Options struct {
	// Version is the program's, shown to control planes and operators. Empty
	// means "dev".
	Version string
	// Logger is told what happens; nil means nothing is logged.
	Logger *slog.Logger
	// Levels are those of the logger, where they may be changed while the node runs;
	// nil for others.
	Levels *logs.Levels
	// Source is where the configuration can be read again. Without Load it stays as it
	// is.
	Source Source
	// Changed is called when resources of a key have been stored and before any
	// client is told of them, sometimes without need; nil means nobody is told.
	// It must not block.
	Changed func(key, typeURL string)
	// Serving is called once, when all ports of the node serve, and Draining when it begins to
	// leave. They must not block; nil means that they are not called.
	Serving, Draining func()
	// Listen binds a port, and Dial connects with control planes, other nodes and Redis.
	// Where they are nil that is done over TCP; tests in virtual time have a network of
	// their own.
	Listen func(address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	// Disk is where last_known_good.directory is. nil means the operating system's; tests in
	// virtual time have one that fills and loses writes.
	Disk lastgood.Disk
	// Clock is the time of day in what leaves the node: answers to other nodes, records and the
	// time of its start. Nil means the machine's; tests in virtual time have one for each node.
	Clock shard.Clock
	// Members makes the members of a tier with self among them. Nil means what the
	// configuration names; tests move keys about by it.
	Members func(self shard.Member) shard.Members
}

// Node is one relay node. All methods are safe for concurrent use.
type Node struct {
	// Fixed after construction.
	cfg       *config.Config
	name      string
	version   string
	logger    *slog.Logger     // of all parts; see part
	log       *slog.Logger     // of the node itself
	levels    *logs.Levels     // nil where they cannot be changed
	events    *events.Recorder // of what happens here
	source    Source
	settings  *settings
	metrics   *telemetry.Telemetry
	gate      *authz.Gate
	origins   *origins
	store     *store.Store                        // the Redis of the tier; nil for none
	members   shard.Members                       // the nodes of the tier
	links     *tier.Peers                         // the connections to them; nil for a node on its own
	peers     *peerPort                           // where they connect; nil for a node on its own
	tier      *tier.Tier                          // where each key comes from
	keeper    *lastgood.Keeper                    // nil where no last known good state is kept
	keys      *lastgood.Keys                      // that it is encrypted with; nil for none
	rollouts  rolloutOrders                       // orders about what clients see; guards itself
	records   rolloutRecords                      // of rollouts
	control   atomic.Pointer[rollouts.Controller] // carries out rollouts; set by build
	holdTime  metric.Float64Histogram             // see measureHold; set by build
	decisions *hooks.Sender                       // sends those about rollouts to another system
	traced    rolloutTraces
	heads     *head.Heads     // nil where there is no Redis
	loads     *load.Collector // nil where the first origin takes no load reports
	limits    *limit.Limiter
	pool      *fanout.Pool
	cache     *cache.Cache
	fanout    *fanout.Server
	status    *csds.Service
	model     *ops.Model // what operators see of all nodes
	strays    ops.Strays // nodes that have clients and are no members; guards itself
	quiet     ops.Quiet  // nodes that do not answer; guards itself
	board     *ops.Board // the newest updates on this node
	samples   samples    // what it was like; guards itself
	noted     noted      // warnings that were seen; of the goroutine of samples
	copies    copies     // what other nodes were like; guards itself
	agreement agreement  // who differs from whom in the tier; guards itself
	grpc      *grpc.Server
	health    *health.Server
	clients   []clientPort                // the first one first
	servers   []*secure.Server            // of the ports that have TLS, but for that of peers
	trusted   uint64                      // the generation of trust when the ports were made
	workloads map[string]*secure.Workload // by address
	polling   *polling                    // nil if off
	admin     net.Listener                // of the port for operators; nil if off
	probes    net.Listener                // of the port for metrics and health checks; nil if off

	certs expiries

	foreign func() ([]string, time.Time) // nodes in Redis that are of another tier; nil without Redis

	clocks clocks      // that differ in the tier; guards itself
	clock  shard.Clock // this node's, for what leaves it

	changed               func(key, typeURL string) // nil for nobody
	onServing, onDraining func()                    // nil if nothing depends on it
	bind                  func(address string) (net.Listener, error)
	dial                  func(ctx context.Context, address string) (net.Conn, error) // nil for TCP
	disk                  lastgood.Disk                                               // nil for that of the operating system
	enlist                func(shard.Member) shard.Members                            // nil for what the configuration says

	// Atomic: what clients are told apart by, and let in by, as it is now.
	rules  atomic.Pointer[aggregation.Rules]
	policy atomic.Pointer[authorize.Policy]
	// policies are those of rollouts. Atomic.
	policies atomic.Pointer[rollout.Policies]
	// hooks are the systems that are asked about rollouts; nil without any. Atomic.
	hooks atomic.Pointer[hooks.Client]
	// hookTarget is what gets events of rollouts; nil for nothing. Atomic.
	hookTarget atomic.Pointer[hooks.Target]

	parts []part // in the order in which they start; owned by New and Run

	state   atomic.Int32
	asked   chan struct{} // closed to make Run drain
	askOnce sync.Once
}

// The states of a node, in their order.
const (
	starting int32 = iota
	serving
	draining
)

// New makes a node and binds its ports; [Node.Run] serves on them. A Node that is
// not to serve after all is released by Run with a context that has ended. The
// configuration is checked, and must not be changed afterwards. Where it is
// wrong the error is a [*config.Error].
func New(cfg *config.Config, opts Options) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, clock: opts.Clock, version: cmp.Or(opts.Version, "dev"), logger: opts.Logger, levels: opts.Levels, source: opts.Source, changed: opts.Changed, onServing: opts.Serving, onDraining: opts.Draining, bind: opts.Listen, dial: opts.Dial, disk: opts.Disk, enlist: opts.Members,
		asked: make(chan struct{}), samples: samples{began: time.Now()},
	}
	if n.logger == nil {
		n.logger = slog.New(slog.DiscardHandler)
	}
	n.events = events.New(nil)
	n.logger = slog.New(n.events.Handler(n.logger.Handler()))
	n.log = n.part(logs.Node)
	if n.bind == nil {
		n.bind = listenTCP
	}
	var dial []grpc.DialOption
	if opts.Dial != nil {
		dial = append(dial, grpc.WithContextDialer(opts.Dial))
	}
	if err := n.build(dial); err != nil {
		n.stop()
		return nil, err
	}
	n.trusted = n.trustGeneration()
	return n, nil
}

// build makes the parts, each from those before it. dial is added to what control
// planes are connected with.
func (n *Node) build(dial []grpc.DialOption) (err error) {
	if n.name, err = nodeName(n.cfg); err != nil {
		return err
	}
	n.events.SetNode(n.name)
	if n.metrics, err = telemetry.New(telemetry.Config{Version: n.version, Instance: n.name, ClientSpans: n.cfg.Telemetry.ClientSpans, Logger: n.log}); err != nil {
		return err
	}
	n.events.SetSink(n.metrics.Event)
	n.add(part{stop: func() {
		n.events.Close()
		n.metrics.Close()
	}})
	if err := n.buildGate(); err != nil {
		return err
	}
	if err := n.buildPolicies(); err != nil {
		return err
	}
	if n.settings, err = newSettings(n.cfg, n.source, n.metrics.Meter()); err != nil {
		return err
	}
	n.add(part{run: n.followSource})
	if n.origins, err = newOrigins(n.cfg, n.originCredentials, dial, n.metrics, n.part(logs.Origin)); err != nil {
		return err
	}
	n.add(part{run: n.origins.watch, stop: n.origins.Close})
	if n.limits, err = limit.New(limitsOf(n.cfg), n.metrics.Meter(), n.part(logs.Clients)); err != nil {
		return err
	}
	n.add(part{run: n.watchLimits})
	if err := n.buildTier(dial); err != nil {
		return err
	}
	n.operate()
	n.pool = fanout.NewPool(0)
	n.pool.SetIntervals(n.cfg.Downstream.MinIntervals())
	n.add(part{stop: n.pool.Close})
	c := n.cfg.Cache
	n.cache, err = cache.New(cache.Config{
		Run: n.runFeed, HeadWait: n.headWait(), Tracer: n.metrics.Tracer(), Streams: n.origins.legs, Route: n.origins.route, Wake: n.wake, Tombstones: c.Tombstones, History: orNone(c.History), HistoryBytes: int64(n.cfg.Limits.MaxHistorySize),
		MaxRemovalPercent: n.cfg.RemovalGuard.MaxPercent, RemovalHold: n.cfg.RemovalGuard.Hold, Alarm: n.massRemoval, HoldEnded: n.holdEnded, UndoEnded: n.undoEnded, NamesNear: n.namesNear,
		Linger: orNone(c.Linger), Lingering: n.cfg.Limits.MaxNamesPerStream, IdleBytes: int64(orNone(n.cfg.Limits.MaxIdleKeysSize)), Hold: orNone(c.ConfirmTimeout),
	})
	if err != nil {
		return err
	}
	n.add(part{stop: n.cache.Close})
	if err := n.buildRollouts(); err != nil {
		return err
	}
	if err := n.buildHeads(); err != nil {
		return err
	}
	if n.origins.loadOrigin() != nil {
		if n.loads, err = load.New(load.Config{Run: n.tier.Report, Linger: orNone(c.Linger)}); err != nil {
			return err
		}
		n.add(part{stop: n.loads.Close}) // which reports what is left
	}
	if err := n.observe(); err != nil {
		return err
	}
	if err := n.buildServer(); err != nil {
		return err
	}
	return n.listen()
}

// wake passes on which subscriptions have news.
func (n *Node) wake(subs []*cache.Subscription) {
	if n.changed != nil {
		for _, s := range subs {
			key, t := s.Of()
			n.changed(string(key), t.URL)
		}
	}
	n.pool.Wake(subs)
}

// massRemoval warns that a control plane has removed a large share of a set (K16).
func (n *Node) massRemoval(m cache.MassRemoval) {
	kind := events.MassRemoval
	if m.HeldBack {
		kind = events.GuardEngaged
	}
	about := []any{events.Key, kind, "key", string(m.Group.Key), "type", m.Type.URL, "upstream", m.Origin, "removals", m.Removals, "of", m.Of}
	if !m.HeldBack {
		n.part(logs.Origin).Warn("the control plane removed most of a complete set, and clients followed; removal_guard.max_percent would have held the removals back", about...)
		return
	}
	n.part(logs.Origin).Warn("removal guard engaged: the control plane removed more than removal_guard.max_percent allows", append(about, "hold", n.cfg.RemovalGuard.Hold)...)
}

// holdEnded logs that held removals took effect (K16).
func (n *Node) holdEnded(g *cache.Group, removals int) {
	n.part(logs.Origin).Warn("the hold of the removal guard ended: held removals took effect", events.Key, events.GuardExpired, "key", string(g.Key), "removals", removals)
}

// namesNear warns before the clients of a key are refused for the size of their names.
func (n *Node) namesNear(c cache.NamesNear) {
	n.part(logs.Origin).Warn("the subscribed names of a key are close to upstream.max_names_size; names without a resource of the clients that ask for most are dropped first, then clients with more are refused",
		"key", string(c.Group.Key), "type", c.Type.URL, "upstream", c.Stream.Origin, "bytes", c.Bytes, "limit", c.Bound)
}

// part is the logger of a part of the node.
func (n *Node) part(name string) *slog.Logger { return logs.Part(n.logger, name) }

// orNone says "none" as the parts do, for which 0 stands for the default.
func orNone[T ~int64 | ~int](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

func (n *Node) buildServer() (err error) {
	d, l := n.cfg.Downstream, n.cfg.Limits
	n.fanout, err = fanout.New(fanout.Config{
		Cache: n.cache, Pool: n.pool, Loads: n.loads, Rules: n.rules.Load, Gate: n.gate, Keyed: n.keyed, RecheckInterval: n.cfg.Authorization.RecheckInterval, NodeName: n.name, Private: n.private,
		SendTimeout: d.SendTimeout, AckTimeout: d.AckTimeout, OriginTimeout: d.UpstreamTimeout, FirstRequestTimeout: d.FirstRequestTimeout,
		HandshakeTimeout: d.HandshakeTimeout,
		MaxConnectionAge: d.MaxConnectionAge,
		MaxReceiveBytes:  int(l.MaxRequestSize), MaxSendBytes: int(l.MaxResponseSize), MaxNames: l.MaxNamesPerStream, V2: d.XDSV2, BodyBytes: int64(l.MaxEncodedSize), EventBytes: int(l.MaxClientEventsSize),
		Compression: compressionOf(d.Compression), Limits: n.limits,
		Tracer: n.metrics.Tracer(), Meter: n.metrics.Meter(), Logger: n.part(logs.Clients),
	})
	if err != nil {
		return err
	}
	if err := n.buildControl(); err != nil {
		return err
	}
	n.status = csds.New(csds.Config{Name: n.name, Others: n.otherStatus, Clients: n.everyClient, Groups: n.cache.Active, Gate: n.gate})
	// The handlers of streams use the cache, so stopping waits for them.
	n.grpc = grpc.NewServer(append(n.fanout.ServerOptions(), append(n.clientOptions(), grpc.WaitForHandlers(true), grpc.StreamInterceptor(n.fanout.CountOthers))...)...)
	n.add(part{run: n.fanout.RunRechecks, drain: n.drainStreams, stop: n.grpc.Stop})
	n.add(part{run: func(ctx context.Context) { n.newBalancer().run(ctx) }})
	n.add(part{run: n.watchTrust})
	n.fanout.Register(n.grpc)
	if d.CSDS {
		n.status.Register(n.grpc)
	}
	n.health = health.NewServer()
	healthpb.RegisterHealthServer(n.grpc, n.health)
	if d.Reflection {
		reflection.Register(n.grpc)
	}
	if n.peers != nil {
		n.buildPeerServer()
	}
	for service := range n.grpc.GetServiceInfo() {
		n.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	}
	return nil
}

// listen binds the ports.
func (n *Node) listen() (err error) {
	if err := n.listenForClients(); err != nil {
		return err
	}
	if err := n.buildPolling(); err != nil {
		return err
	}
	if err := n.buildProbePort(); err != nil {
		return err
	}
	return n.buildAdmin()
}

// listenAt binds the port that a field of the configuration names.
func (n *Node) listenAt(field, address string) (net.Listener, error) {
	l, err := n.bind(address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return l, nil
}
