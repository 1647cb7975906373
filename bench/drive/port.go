package drive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// port keeps an address for as long as a server lives, also while it is away:
// clients are refused then. Without that, one of thousands of clients could be
// given the port for its own end of a connection.
type port struct {
	holder int // a socket that is bound and never listens
	addr   string
}

// holdPort takes an address: an IPv4 address and a port, where 0 means a free
// one. It is refused where somebody listens.
func holdPort(addr string) (*port, error) {
	want, err := netip.ParseAddrPort(addr)
	if err != nil || !want.Addr().Is4() {
		return nil, fmt.Errorf("listen: got address %q, expected IPv4 and a port, like 127.0.0.1:0", addr)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &port{holder: fd}
	// Sockets that all allow it may be bound to one address as long as none
	// listens before the others are bound. The net package allows it, too.
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: int(want.Port()), Addr: want.Addr().As4()}),
	)
	if err == nil {
		err = p.readAddr()
	}
	if err != nil {
		p.release()
		return nil, fmt.Errorf("listen: %s: %w", addr, err)
	}
	return p, nil
}

func (p *port) readAddr() error {
	bound, err := unix.Getsockname(p.holder)
	if err != nil {
		return err
	}
	at, ok := bound.(*unix.SockaddrInet4)
	if !ok {
		return fmt.Errorf("the socket has an address of type %T", bound)
	}
	p.addr = netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
	return nil
}

func (p *port) listen(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp4", p.addr)
}

func (p *port) release() { _ = unix.Close(p.holder) }
