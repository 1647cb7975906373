package xdstest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
)

// Host is a machine on a [Memory], with an IP address of its own. What goes on between
// two hosts is up to [Memory.SetWay]; hosts of one name share their ways. A machine that
// comes back after [Host.Vanish] is a new Host with the same name and address.
type Host struct {
	memory   *Memory // fixed
	name, ip string  // fixed

	mu        sync.Mutex
	gone      bool                     // guarded by mu
	conns     map[*memoryConn]bool     // guarded by mu: its ends
	listeners map[*memoryListener]bool // guarded by mu
}

// wayID names a way by the names of its hosts.
type wayID struct{ from, to string }

// NewHost adds a machine.
func (m *Memory) NewHost(name, ip string) *Host {
	return &Host{memory: m, name: name, ip: ip, conns: make(map[*memoryConn]bool), listeners: make(map[*memoryListener]bool)}
}

// SetWay changes how data gets from hosts of one name to those of another.
func (m *Memory) SetWay(from, to string, w Way) { m.way(from, to).set(w) }

func (m *Memory) way(from, to string) *memoryWay {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := wayID{from, to}
	if m.ways[id] == nil {
		m.ways[id] = newMemoryWay()
	}
	return m.ways[id]
}

// Cut resets the connections that the host has with hosts of a name, and all if the
// name is empty.
func (h *Host) Cut(with string) {
	h.mu.Lock()
	var cut []*memoryConn
	for c := range h.conns {
		if with == "" || c.other.host.name == with {
			cut = append(cut, c)
		}
	}
	h.mu.Unlock()
	for _, c := range cut {
		c.reset()
	}
}

// Vanish ends the machine as a power cut does, or, where the kernel lives on, as kill -9
// of all that runs on it: with reset its connections are reset, without nothing is
// heard of them any more, until it is called again with reset, as when the machine is
// back. What still runs on it reaches nobody.
func (h *Host) Vanish(reset bool) {
	h.mu.Lock()
	h.gone = true
	var ends []*memoryConn
	for c := range h.conns {
		ends = append(ends, c)
	}
	var listeners []*memoryListener
	for l := range h.listeners {
		listeners = append(listeners, l)
	}
	h.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for _, c := range ends {
		if reset {
			c.reset()
		} else {
			c.fall()
		}
	}
}

// Listen accepts connections at a port of the host, "ip:port"; port 0 stands for one
// that nobody has had.
func (h *Host) Listen(address string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	at.IP = net.ParseIP(h.ip)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil, fmt.Errorf("listen at %s: %w", at, syscall.EADDRNOTAVAIL)
	}
	l, err := h.memory.listen(at, h)
	if err != nil {
		return nil, err
	}
	h.listeners[l] = true
	return l, nil
}

// Dial connects to who listens at an address.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	h.mu.Lock()
	gone := h.gone
	h.mu.Unlock()
	if gone {
		return nil, fmt.Errorf("connect to %s: %w", address, syscall.ENETUNREACH)
	}
	return h.memory.dial(ctx, h, address)
}

// Option makes a gRPC client use the host.
func (h *Host) Option() grpc.DialOption { return grpc.WithContextDialer(h.Dial) }

// NewStateOrigin is [NewStateOrigin] on the host.
func (h *Host) NewStateOrigin(t TB, viewOf func(*corev3.Node) string) *StateOrigin {
	t.Helper()
	return newStateOrigin(t, h, viewOf)
}

// hold gives a server its address.
func (h *Host) hold() (port, error) {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	h.memory.last++
	return &memoryPort{listener: h, at: fmt.Sprintf("%s:%d", h.ip, h.memory.last)}, nil
}

// add notes an end of a connection; it reports whether the host is still there.
func (h *Host) add(c *memoryConn) bool {
	if h == nil {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.gone {
		h.conns[c] = true
	}
	return !h.gone
}

func (h *Host) drop(c *memoryConn) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

func (h *Host) dropListener(l *memoryListener) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// pass waits until a connection can come about between two hosts, which takes a round
// trip.
func (m *Memory) pass(ctx context.Context, from, to *Host, address string) error {
	if from == nil || to == nil {
		return nil
	}
	there, back := m.way(from.name, to.name), m.way(to.name, from.name)
	for {
		changed, changedBack := there.change(), back.change()
		a, b := there.is(), back.is()
		if a.Refused || b.Refused {
			return fmt.Errorf("connect to %s: %w", address, syscall.ECONNREFUSED)
		}
		var trip <-chan time.Time
		if !a.Stalled && !b.Stalled {
			if a.Delay+b.Delay == 0 {
				return nil
			}
			trip = time.After(a.Delay + b.Delay)
		}
		select {
		case <-trip:
			return nil
		case <-changed:
		case <-changedBack:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
