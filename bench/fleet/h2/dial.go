package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// Config is what connections have in common.
type Config struct {
	// TLS makes connections encrypted; its NextProtos has to hold "h2". nil
	// means plaintext.
	TLS *tls.Config
	// Plain goes without HTTP/2: there is one stream, whose messages follow each
	// other on the connection in both directions.
	Plain bool
	// StreamWindow and ConnWindow are how many bytes the server may send ahead
	// on a stream and on the connection, 64 KiB to 2 GiB; 0 means 16 and 24 MiB,
	// as newer Envoys have it.
	StreamWindow, ConnWindow int
	// MaxMessage bounds a message, compressed or not; 0 means 1 GiB.
	MaxMessage int
	// ReceiveBuffer is the socket's receive buffer in bytes; 0 leaves it to the
	// system.
	ReceiveBuffer int
	// Traffic counts bytes; nil means that nobody wants to know.
	Traffic *Traffic

	// Made by complete.
	inflater *inflater
	share    *share
}

// Traffic counts what went over all connections that share it, TLS records not
// included.
type Traffic struct{ In, Out atomic.Int64 }

const (
	defaultStreamWindow = 16 << 20
	defaultConnWindow   = 24 << 20
	defaultMaxMessage   = 1 << 30
)

func (c *Config) complete() error {
	window := func(n *int, missing int) error {
		if *n == 0 {
			*n = missing
		}
		if *n < defaultWindow || *n > maxWindow {
			return fmt.Errorf("h2: a window of %d bytes, expected %d to %d", *n, defaultWindow, maxWindow)
		}
		return nil
	}
	c.inflater, c.share = &inflater{}, &share{}
	if c.MaxMessage == 0 {
		c.MaxMessage = defaultMaxMessage
	}
	return errors.Join(window(&c.StreamWindow, defaultStreamWindow), window(&c.ConnWindow, defaultConnWindow))
}

// Dialer opens connections that share a [Config]. It may be used by any number
// of goroutines.
type Dialer struct{ cfg Config }

// NewDialer checks the configuration.
func NewDialer(cfg Config) (*Dialer, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Dialer{cfg: cfg}, nil
}

// Dial connects to addr, "host:port", from the given source address, which may
// be nil. The connection's goroutine is the caller's until it is handed to the
// one that calls [Conn.Serve].
func (d *Dialer) Dial(ctx context.Context, addr string, from net.Addr) (*Conn, error) {
	return d.DialTLS(ctx, addr, from, d.cfg.TLS)
}

// DialTLS is Dial with a TLS configuration of its own; nil means plaintext.
func (d *Dialer) DialTLS(ctx context.Context, addr string, from net.Addr, cfg *tls.Config) (*Conn, error) {
	dialer := net.Dialer{LocalAddr: from, KeepAlive: -1, FallbackDelay: -1}
	if n := d.cfg.ReceiveBuffer; n > 0 {
		dialer.Control = func(_, _ string, c syscall.RawConn) error { return receiveBuffer(c, n) }
	}
	nc, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if cfg == nil {
		return newConn(nc, &d.cfg), nil
	}
	tc := tls.Client(nc, serverName(cfg, addr))
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS with %s: %w", addr, err), nc.Close())
	}
	if got := tc.ConnectionState().NegotiatedProtocol; got != "h2" {
		return nil, errors.Join(fmt.Errorf("TLS with %s: the server chose the protocol %q, expected h2", addr, got), nc.Close())
	}
	return newConn(tc, &d.cfg), nil
}

// serverName is the TLS configuration with the host's name in it, where it has
// none.
func serverName(cfg *tls.Config, addr string) *tls.Config {
	if cfg.ServerName != "" || cfg.InsecureSkipVerify {
		return cfg
	}
	c := cfg.Clone()
	c.ServerName, _, _ = net.SplitHostPort(addr)
	return c
}
