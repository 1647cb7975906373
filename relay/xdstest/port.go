package xdstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// port keeps an address for as long as a part lives, also while nothing listens
// there: a tcpPort or a memoryPort.
type port interface {
	addr() string // "127.0.0.1:port"
	listen() (net.Listener, error)
	release()
}

// place is where servers can be: a [Memory], also the nil one, or a [Host].
type place interface {
	hold() (port, error)
}

// tcpPort keeps a port of 127.0.0.1, also while nothing listens there, so that a stopped server can come back at the same
// address. A socket that is bound but never listens does that: connections are
// refused, and nobody else can be given the port, neither another test nor the
// outgoing side of a client that keeps trying to connect to it (which, on
// loopback, would end up connected to itself).
type tcpPort struct {
	fd int
	at string
}

func holdPort() (*tcpPort, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("hold a port: socket: %w", err)
	}
	unix.CloseOnExec(fd)
	if err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("hold a port: %w", err)
	}
	bound, err := unix.Getsockname(fd)
	inet, ok := bound.(*unix.SockaddrInet4)
	if err != nil || !ok {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("hold a port: address is %T: %w", bound, err)
	}
	return &tcpPort{fd: fd, at: fmt.Sprintf("127.0.0.1:%d", inet.Port)}, nil
}

// listen starts to accept connections at the port.
func (p *tcpPort) addr() string { return p.at }

func (p *tcpPort) listen() (net.Listener, error) {
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}); e != nil {
			return e
		}
		return err
	}}
	return shared.Listen(context.Background(), "tcp", p.at)
}

func (p *tcpPort) release() { _ = unix.Close(p.fd) }
