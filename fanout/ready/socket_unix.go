//go:build unix

package ready

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"google.golang.org/grpc/mem"
)

// socket is the Reader of an operating system socket.
type socket struct {
	conn net.Conn
	raw  syscall.RawConn
	read func(fd uintptr) bool // reads once; made once, so that a read does not allocate

	// Of the read in progress.
	size int
	pool mem.BufferPool
	buf  *[]byte
	n    int
	err  error
}

// newSocket returns nil if c is not a socket. It lists the types because a TLS connection may
// expose the socket below it.
func newSocket(c net.Conn) Reader {
	var sys syscall.Conn
	switch c := c.(type) {
	case *net.TCPConn:
		sys = c
	case *net.UnixConn:
		sys = c
	default:
		return nil
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{conn: c, raw: raw}
	s.read = s.readOnce
	return s
}

// readOnce returns false if no data is available yet.
func (s *socket) readOnce(fd uintptr) bool {
	s.buf = s.pool.Get(s.size)
	for {
		s.n, s.err = syscall.Read(int(fd), (*s.buf)[:s.size])
		if !errors.Is(s.err, syscall.EINTR) {
			break
		}
	}
	if s.n > 0 {
		return true
	}
	s.pool.Put(s.buf)
	s.buf, s.n = nil, 0
	return !errors.Is(s.err, syscall.EAGAIN) && !errors.Is(s.err, syscall.EWOULDBLOCK)
}

func (s *socket) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	s.size, s.pool = size, pool
	err := s.raw.Read(s.read)
	buf, n, failed := s.buf, s.n, s.err
	s.pool, s.buf, s.n, s.err = nil, nil, 0, nil
	switch {
	case n > 0:
		return buf, n, nil
	case err != nil: // the connection is closed, or its deadline has passed
		return nil, 0, err
	case failed != nil:
		return nil, 0, &net.OpError{
			Op: "read", Net: s.conn.LocalAddr().Network(), Source: s.conn.LocalAddr(), Addr: s.conn.RemoteAddr(),
			Err: os.NewSyscallError("read", failed),
		}
	}
	return nil, 0, io.EOF
}
