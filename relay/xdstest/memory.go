package xdstest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// Memory is a network inside of the process. Its addresses look like those of
// loopback, but nobody else can connect to them. There is no socket in it, which
// [testing/synctest] could not wait for: conversations in virtual time go over a
// Memory, and neither their waits nor their silences depend on how busy the
// machine is. The nil Memory is TCP on loopback.
type Memory struct {
	mu        sync.Mutex
	last      int                        // guarded by mu; the last port that was given away
	listeners map[string]*memoryListener // guarded by mu; by address
}

// NewMemory makes a network of nobody.
func NewMemory() *Memory { return &Memory{listeners: make(map[string]*memoryListener)} }

// memoryBuffer is what a connection holds that was written and not read, in
// bytes and each way.
const memoryBuffer = 64 << 10

// Listen accepts connections at "127.0.0.1:port"; port 0 stands for one that
// nobody has had.
func (m *Memory) Listen(address string) (net.Listener, error) {
	if m == nil {
		return (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Port == 0 {
		m.last++
		at.Port = m.last
	}
	if m.listeners[at.String()] != nil {
		return nil, fmt.Errorf("listen at %s: %w", at, syscall.EADDRINUSE)
	}
	l := &memoryListener{Listener: bufconn.Listen(memoryBuffer), memory: m, at: at}
	m.listeners[at.String()] = l
	return l, nil
}

// Dial connects to who listens at an address.
func (m *Memory) Dial(ctx context.Context, address string) (net.Conn, error) {
	if m == nil {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	m.mu.Lock()
	l := m.listeners[address]
	m.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("connect to %s: %w", address, syscall.ECONNREFUSED)
	}
	return l.DialContext(ctx)
}

// Option makes a gRPC client use this network.
func (m *Memory) Option() grpc.DialOption {
	if m == nil {
		return grpc.EmptyDialOption{}
	}
	return grpc.WithContextDialer(m.Dial)
}

// Client is [Dial] over this network.
func (m *Memory) Client(t TB, address string, opts ...grpc.DialOption) *Conn {
	t.Helper()
	return Dial(t, address, append(opts, m.Option())...)
}

// hold gives a server its address.
func (m *Memory) hold() (port, error) {
	if m == nil {
		return holdPort()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	return &memoryPort{memory: m, at: fmt.Sprintf("127.0.0.1:%d", m.last)}, nil
}

// memoryPort is an address that nobody else is given.
type memoryPort struct {
	memory *Memory
	at     string
}

func (p *memoryPort) addr() string                  { return p.at }
func (p *memoryPort) listen() (net.Listener, error) { return p.memory.Listen(p.at) }
func (p *memoryPort) release()                      {}

// memoryListener is one of the listeners of a Memory.
type memoryListener struct {
	*bufconn.Listener

	memory *Memory
	at     net.Addr
}

// Accept waits for the next connection; [net.ErrClosed] is the only error.
func (l *memoryListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, net.ErrClosed
	}
	return c, nil
}

// Addr is the address with its port.
func (l *memoryListener) Addr() net.Addr { return l.at }

// Close refuses connections from now on.
func (l *memoryListener) Close() error {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	if l.memory.listeners[l.at.String()] == l {
		delete(l.memory.listeners, l.at.String())
	}
	return l.Listener.Close()
}
