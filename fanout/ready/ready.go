// Package ready reads from connections without holding a buffer while nothing arrives.
//
// grpc-go takes the read buffer of a connection from a pool only when the connection has
// data, but it does so only for sockets that it sees, and for connections with the method
// ReadOnReady. A wrapper that hides the socket would pin a buffer per client, however
// idle the client is. Wrappers implement ReadOnReady with a [Reader] of this package.
package ready

import (
	"crypto/tls"
	"net"

	"google.golang.org/grpc/mem"
)

// Reader reads when data is available. It is not safe for concurrent use.
type Reader interface {
	// ReadOnReady waits until data arrives, takes a buffer from the pool, and reads at
	// most size bytes into it. It returns the buffer, which the caller gives back, with
	// the number of bytes; or nil and an error.
	ReadOnReady(size int, pool mem.BufferPool) (buf *[]byte, n int, err error)
}

// NewReader returns a Reader for a connection; c itself if it is one. Waiting on a socket needs no
// buffer. For any other connection, such as TLS, the Reader waits with a buffer of a few bytes of
// its own. A TLS connection must not be read otherwise while the Reader is in use: the Reader
// releases its buffers.
func NewReader(c net.Conn) Reader {
	if r, ok := c.(Reader); ok {
		return r
	}
	if r := newSocket(c); r != nil {
		return r
	}
	if t, ok := c.(*tls.Conn); ok {
		return &encrypted{probed{conn: t}, t}
	}
	return &probed{conn: c}
}

// probeSize is one byte more than the smallest HTTP/2 frame. So when a probe is filled, the rest of
// its frame follows; with TLS it is mostly decrypted already.
const probeSize = 10

// probed is the Reader of a connection that only a read can wait for.
type probed struct {
	conn  net.Conn
	probe [probeSize]byte
	more  bool // the last read filled the probe
}

func (p *probed) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	if p.more {
		p.more = false
		buf := pool.Get(size)
		n, err := p.conn.Read((*buf)[:size])
		if n == 0 {
			pool.Put(buf)
			return nil, 0, err
		}
		return buf, n, err
	}
	n, err := p.conn.Read(p.probe[:min(size, probeSize)])
	if n == 0 {
		return nil, 0, err
	}
	p.more = n == probeSize
	buf := pool.Get(size)
	copy(*buf, p.probe[:n])
	return buf, n, err
}
