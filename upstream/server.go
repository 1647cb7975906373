package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
)

// channel is the part of *grpc.ClientConn that is used. Tests in virtual time implement it without
// a network.
type channel interface {
	NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error)
	GetState() connectivity.State
	WaitForStateChange(ctx context.Context, from connectivity.State) bool
	Connect()
	ResetConnectBackoff()
	Close() error
}

// server is one address of the control plane, shared by all keys.
type server struct {
	// Fixed after construction.
	index    int // index in the list of addresses; lower is better
	address  string
	channel  channel
	method   string
	callOpts []grpc.CallOption
	owner    *ControlPlane
	journal  *journal
	limit    sendLimit // of requests
	pauses   pauses
}

// whatControlPlane is what a journal calls an address that is not that of another node.
const whatControlPlane = "control plane"

func newServer(index int, address string, ch channel, owner *ControlPlane) *server {
	s := &server{
		index: index, address: address, channel: ch, owner: owner, method: adsMethod(owner.cfg.V2, owner.cfg.Delta),
		callOpts: []grpc.CallOption{grpc.ForceCodecV2(newCodec())},
	}
	s.limit.bytes.Store(int64(owner.cfg.MaxSendBytes))
	variant := "sotw"
	if owner.cfg.Delta {
		variant = "delta"
	}
	what := whatControlPlane
	if owner.cfg.Peer != "" {
		what = "owner of keys"
	}
	s.journal = newJournal(owner.cfg.Logger.With("address", address, "variant", variant), what)
	if p, ok := ch.(*pinged); ok {
		p.onReduced = s.journal.pingsReduced
	}
	return s
}

// dial creates the connection of an address, idle at first.
func dial(address string, cfg *ControlPlaneConfig, pingEvery time.Duration) (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(probed{cfg.Credentials}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cfg.MaxReceiveBytes)), // C17
		grpc.WithConnectParams(grpc.ConnectParams{
			// C13, once for all keys.
			Backoff: backoff.Config{
				BaseDelay: cfg.Backoff.Initial, Multiplier: cfg.Backoff.Multiplier,
				Jitter: cfg.Backoff.Jitter, MaxDelay: cfg.Backoff.Max,
			},
			MinConnectTimeout: cfg.ConnectTimeout,
		}),
	}
	if pingEvery > 0 {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: cfg.KeepaliveTimeout}))
	}
	conn, err := grpc.NewClient(address, append(options, cfg.DialOptions...)...)
	if err != nil {
		return nil, fmt.Errorf("control plane address %q: %w", address, err)
	}
	return conn, nil
}

// open opens a stream. It waits while the connection is being made, and fails if that has failed;
// see waitReady.
func (s *server) open(ctx context.Context) (grpc.ClientStream, error) {
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := s.channel.NewStream(ctx, desc, s.method, s.callOpts...)
	if err != nil {
		return nil, err
	}
	// This call disables gRPC's transparent retry. gRPC would move requests that the server has not
	// seen yet to the next connection, and senders would wait for that. The server stream retries
	// itself (C13).
	_ = stream.Context()
	return stream, nil
}

func (s *server) pausing(p *pace, until time.Time) { s.pauses.set(p, until) }

// back returns a channel that is closed when a stream is up after none was, and by
// [ControlPlane.Reconnect].
func (s *server) back() <-chan struct{} { return s.journal.back() }

// reachable reports whether there is a connection.
func (s *server) reachable() bool { return s.channel.GetState() == connectivity.Ready }

// waitReady waits until there is a connection. The channel itself retries with backoff; waiting
// keys cost nothing meanwhile.
func (s *server) waitReady(ctx context.Context) error {
	for {
		state := s.channel.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Shutdown:
			return errClosed
		case connectivity.Idle:
			s.channel.Connect()
		}
		if !s.channel.WaitForStateChange(ctx, state) {
			return context.Cause(ctx)
		}
	}
}

// Bounds of spread.
const (
	spreadPerKey = time.Millisecond
	minSpread    = 20 * time.Millisecond
	maxSpread    = time.Second
)

// spread returns a random delay that keeps the streams of many keys from being opened at once when
// the server is back (C13).
func (s *server) spread() time.Duration {
	span := time.Duration(s.owner.keys.Load()) * spreadPerKey
	return rand.N(min(max(span, minSpread), maxSpread))
}
