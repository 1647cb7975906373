package upstream

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// Others operate the control plane. By default, gRPC servers permit one ping in five minutes. They
// close the connection of a client that pings more often, with ENHANCE_YOUR_CALM, and with it the
// streams of all keys. So by default the relay lets TCP check whether the other side still exists
// (see probed), which no server counts, and pings no more often than all servers permit.

// pinged is the connection of one address. If its server closes it because of too many pings, the
// relay reconnects with fewer pings, for the lifetime of the process: gRPC by itself only doubles
// the interval each time, so a server would have to close the connection again and again.
type pinged struct {
	// Fixed after construction.
	make func(every time.Duration) (*grpc.ClientConn, error)
	// onReduced is called each time that the interval between pings becomes longer. It is set
	// before use.
	onReduced func(was, now time.Duration)

	mu    sync.Mutex
	conn  *grpc.ClientConn // guarded by mu
	every time.Duration    // guarded by mu; the interval between pings; 0 or less for none
}

func newPinged(address string, cfg *ControlPlaneConfig) (*pinged, error) {
	p := &pinged{every: cfg.KeepaliveTime, onReduced: func(_, _ time.Duration) {}}
	p.make = func(every time.Duration) (*grpc.ClientConn, error) { return dial(address, cfg, every) }
	var err error
	p.conn, err = p.make(p.every)
	return p, err
}

func (p *pinged) now() *grpc.ClientConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn
}

func (p *pinged) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	conn := p.now()
	stream, err := conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &pingedStream{ClientStream: stream, of: p, conn: conn}, nil
}

// GetState returns the state of the present connection, never of one that was replaced.
func (p *pinged) GetState() connectivity.State {
	for {
		conn := p.now()
		if state := conn.GetState(); state != connectivity.Shutdown || conn == p.now() {
			return state
		}
	}
}

func (p *pinged) WaitForStateChange(ctx context.Context, from connectivity.State) bool {
	return p.now().WaitForStateChange(ctx, from)
}

func (p *pinged) Connect() { p.now().Connect() }

func (p *pinged) ResetConnectBackoff() { p.now().ResetConnectBackoff() }

func (p *pinged) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.make = nil
	return p.conn.Close()
}

// reducePings replaces a connection that was closed because of too many pings, unless it was
// replaced already.
func (p *pinged) reducePings(ended *grpc.ClientConn) {
	p.mu.Lock()
	was, next := p.every, time.Duration(0)
	if was > 0 && was < permittedKeepalive {
		next = permittedKeepalive
	}
	if ended != p.conn || p.make == nil || was <= 0 {
		p.mu.Unlock()
		return
	}
	conn, err := p.make(next)
	if err != nil { // unexpected: the same address was accepted before
		p.mu.Unlock()
		return
	}
	p.conn, p.every = conn, next
	p.mu.Unlock()
	p.onReduced(was, next)
	_ = ended.Close() // the server has closed it already
}

// pingedStream checks why a stream ends.
type pingedStream struct {
	grpc.ClientStream
	of   *pinged
	conn *grpc.ClientConn
}

func (s *pingedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil && tooManyPings(err) {
		s.of.reducePings(s.conn)
	}
	return err
}

// tooManyPings reports whether a stream has ended with its connection because the server received
// too many pings. gRPC exposes that in the text of the error only.
func tooManyPings(err error) bool {
	s, _ := status.FromError(err)
	return s.Code() == codes.Unavailable && strings.Contains(s.Message(), "ENHANCE_YOUR_CALM") && strings.Contains(s.Message(), "too_many_pings")
}

// probed makes TCP detect within about a minute that the other side of a connection has disappeared
// while nothing is sent. It is part of the credentials because a custom dialer would lose gRPC's
// support of proxies.
type probed struct {
	credentials.TransportCredentials
}

var probes = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

func (p probed) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if conn, ok := raw.(interface {
		SetKeepAliveConfig(config net.KeepAliveConfig) error
	}); ok {
		_ = conn.SetKeepAliveConfig(probes) // a connection works without probes, too
	}
	return p.TransportCredentials.ClientHandshake(ctx, authority, raw)
}

func (p probed) Clone() credentials.TransportCredentials {
	return probed{p.TransportCredentials.Clone()}
}
