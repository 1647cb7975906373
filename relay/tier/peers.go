package tier

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/trace"
	"xdsrelay/shard"
	"xdsrelay/upstream"
)

// PeersConfig configures the connections to the other nodes. It does not change after [NewPeers].
type PeersConfig struct {
	// Self is the name of this node. Required.
	Self string
	// Credentials secure connections; nil means plaintext.
	Credentials credentials.TransportCredentials
	// Token proves that this node belongs to the tier; nil if certificates do.
	Token credentials.PerRPCCredentials
	// Timeout is how long a node may take to answer before it counts as unreachable. Default 2 s.
	Timeout time.Duration
	// DialOptions are added to the options of each connection.
	DialOptions []grpc.DialOption
	// Tracer gets spans of connections; nil for none.
	Tracer *trace.Tracer
	// Meter makes the instruments; nil means none.
	Meter metric.Meter
	// Logger gets events; nil means none.
	Logger *slog.Logger
}

// Peers are the connections to the other nodes: one to each, which all keys share and which is made
// when it is first needed. All methods are safe for concurrent use.
type Peers struct {
	// Fixed after construction.
	cfg PeersConfig

	mu lockorder.Mutex[lockorder.Peers]
	// Guarded by mu.
	all    map[peerID]*peer
	closed bool
}

// peerID identifies a connection.
type peerID struct{ name, address string }

func idOf(m shard.Member) peerID { return peerID{m.Name, m.Peer} }

// unusedTime is how long a connection to a node that is no longer a member stays open after the last
// call. Longer than the pause between two calls to a node that may have crashed: while a connection
// keeps trying, a call fails at once.
const unusedTime = time.Minute

// NewPeers returns Peers without connections.
func NewPeers(cfg PeersConfig) *Peers {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Peers{cfg: cfg, all: make(map[peerID]*peer)}
}

// call returns the connection to a member, for one call.
func (p *Peers) call(m shard.Member) (*peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.callLocked(m)
}

// question returns the connection to a member, for one question. It stays open until [Peers.answered].
func (p *Peers) question(m shard.Member) (*peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, err := p.callLocked(m)
	if err == nil {
		one.waiting++
	}
	return one, err
}

func (p *Peers) callLocked(m shard.Member) (*peer, error) {
	one, err := p.atLocked(m)
	if err == nil {
		one.called = time.Now()
	}
	return one, err
}

func (p *Peers) atLocked(m shard.Member) (*peer, error) {
	if p.closed {
		return nil, errClosed
	}
	if one := p.all[idOf(m)]; one != nil {
		return one, nil
	}
	one, err := newPeer(p, m)
	if err != nil {
		return nil, err
	}
	p.all[idOf(m)] = one
	return one, nil
}

// use returns the connection to a member, which stays open until [peer.leave]. It never fails: a
// member without a usable address gets a connection that is always unreachable.
func (p *Peers) use(m shard.Member) *peer {
	p.mu.Lock()
	defer p.mu.Unlock() // held until it is used: retain closes unused connections
	one, err := p.atLocked(m)
	if err != nil {
		p.cfg.Logger.Error("cannot connect to a peer", "node", m.Name, "address", m.Peer, "error", err)
		return &peer{owner: p, member: m, since: time.Now().Add(-time.Hour), changed: make(chan struct{})}
	}
	one.join()
	return one
}

// retain closes the connections to nodes that are not in a view, unless they are used.
func (p *Peers) retain(view *shard.View) { p.closeFormer(view, time.Now()) }

// sweep closes the connections to nodes that are not in a view which retain could not close: they
// were used then, or made later, unless they are used or were called within unusedTime.
func (p *Peers) sweep(view *shard.View) { p.closeFormer(view, time.Now().Add(-unusedTime)) }

// closeFormer closes the unused connections to nodes that are not in a view, except those that were
// called after a time.
func (p *Peers) closeFormer(view *shard.View, after time.Time) {
	there := make(map[peerID]bool)
	for _, m := range view.Members() {
		there[idOf(m)] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, one := range p.all {
		if one.setGone(!there[id]) && one.waiting == 0 && !one.called.After(after) {
			delete(p.all, id)
			one.plane.Close()
		}
	}
}

// drop closes a connection to a node that is no longer a member, if it is unused.
func (p *Peers) drop(one *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := idOf(one.member); p.all[id] == one && one.waiting == 0 && one.unused() {
		delete(p.all, id)
		one.plane.Close()
	}
}

// Close ends all connections.
func (p *Peers) Close() {
	p.mu.Lock()
	p.closed = true
	all := p.all
	p.all = nil
	p.mu.Unlock()
	for _, one := range all {
		one.stop()
		one.plane.Close()
	}
}

// Ask asks another node, whose [Tier.Handle] defines the questions. path may have a query, like
// "release?key=x". Ask fails at once if the node is unreachable. A node that leaves the tier meanwhile can
// still answer.
func (p *Peers) Ask(ctx context.Context, m shard.Member, path string) ([]byte, error) {
	one, err := p.question(m)
	if err != nil {
		return nil, err
	}
	defer p.answered(one)
	return ask(ctx, one.plane, path)
}

// answered records that a question has its answer.
func (p *Peers) answered(one *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.waiting--
}

// Stream makes a call of another node that is answered by a stream of messages. It
// fails at once where the node cannot be reached, and lasts until ctx ends or it has
// been read to its end. A stream to a node that is no longer a member may end after a minute, or
// when the members change.
func (p *Peers) Stream(ctx context.Context, m shard.Member, method string, request proto.Message) (grpc.ClientStream, error) {
	one, err := p.call(m)
	if err != nil {
		return nil, err
	}
	return one.plane.Stream(ctx, method, request)
}

// Status asks another node what it says of itself.
func (p *Peers) Status(ctx context.Context, m shard.Member) (now shard.Status, err error) {
	answer, err := p.Ask(ctx, m, statusPath)
	if err != nil {
		return now, err
	}
	err = json.Unmarshal(answer, &now)
	return now, err
}

// How many unread bytes another node may send to this one: on one stream, and on all streams of a
// connection together.
const (
	streamWindow = 1 << 20
	connWindow   = 4 << 20
)

// plane makes the xDS client of another node.
func (p *Peers) plane(m shard.Member) (*upstream.ControlPlane, error) {
	// Fixed windows avoid the pings of bandwidth estimation, one per answer of an idle node.
	options := append([]grpc.DialOption{grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow)}, p.cfg.DialOptions...)
	if p.cfg.Token != nil {
		options = append(options, grpc.WithPerRPCCredentials(p.cfg.Token))
	}
	return upstream.NewControlPlane(upstream.ControlPlaneConfig{
		Addresses: []string{m.Peer}, Peer: p.cfg.Self, Name: "peer",
		MaxReceiveBytes: 1 << 30, KeepaliveTime: 10 * time.Second, KeepaliveTimeout: max(p.cfg.Timeout, time.Second),
		ConnectTimeout: max(p.cfg.Timeout, time.Second),
		Backoff:        upstream.Backoff{Initial: 100 * time.Millisecond, Max: 2 * time.Second},
		Credentials:    p.cfg.Credentials, DialOptions: options, Tracer: p.cfg.Tracer, Meter: p.cfg.Meter, Logger: p.cfg.Logger.With("node", m.Name),
	})
}
