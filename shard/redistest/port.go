package redistest

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// heldPort reserves a port of 127.0.0.1 for a server for as long as a test runs, also while the
// server is down. A bound socket that never listens does that: the kernel assigns other ports to
// other programs, and a server that binds this port with SO_REUSEADDR, as Redis does, gets it.
type heldPort struct{ fd, port int }

func holdPort() (*heldPort, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("hold a port: socket: %w", err)
	}
	unix.CloseOnExec(fd)
	if err = errors.Join(
		unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
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
	return &heldPort{fd: fd, port: inet.Port}, nil
}

func (p *heldPort) addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

func (p *heldPort) release() { _ = unix.Close(p.fd) }
