package xdstest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

	"google.golang.org/grpc"
)

// Memory is a network inside of the process. Its addresses look like those of
// loopback, but nobody else can connect to them. There is no socket in it, which
// [testing/synctest] could not wait for: conversations in virtual time go over a
// Memory, and neither their waits nor their silences depend on how busy the
// machine is. The nil Memory is TCP on loopback.
type Memory struct {
	mu        sync.Mutex
	last      int                        // guarded by mu; the last port that was given away
	dialed    int                        // guarded by mu; how many connections were asked for
	listeners map[string]*memoryListener // guarded by mu; by address
	ways      map[wayID]*memoryWay       // guarded by mu
}

// firstDialed is above the ports of listeners: the first of those that dial.
const firstDialed = 40_000

// NewMemory makes a network of nobody.
func NewMemory() *Memory {
	return &Memory{listeners: make(map[string]*memoryListener), ways: make(map[wayID]*memoryWay)}
}

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
	return m.listen(at, nil)
}

// listen accepts connections for a host; nil is nobody's.
func (m *Memory) listen(at *net.TCPAddr, host *Host) (*memoryListener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Port == 0 {
		m.last++
		at.Port = m.last
	}
	if m.listeners[at.String()] != nil {
		return nil, fmt.Errorf("listen at %s: %w", at, syscall.EADDRINUSE)
	}
	l := &memoryListener{memory: m, host: host, at: at, arrivals: make(chan *memoryConn), closed: make(chan struct{})}
	m.listeners[at.String()] = l
	return l, nil
}

// Dial connects to who listens at an address.
func (m *Memory) Dial(ctx context.Context, address string) (net.Conn, error) {
	if m == nil {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	return m.dial(ctx, nil, address)
}

// dial connects from a host; nil is nobody's.
func (m *Memory) dial(ctx context.Context, host *Host, address string) (net.Conn, error) {
	m.mu.Lock()
	l := m.listeners[address]
	m.dialed++
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: firstDialed + m.dialed%(1<<16-firstDialed)}
	m.mu.Unlock()
	if host != nil {
		from.IP = net.ParseIP(host.ip)
	}
	if l == nil {
		return nil, fmt.Errorf("connect to %s: %w", address, syscall.ECONNREFUSED)
	}
	if err := m.pass(ctx, host, l.host, address); err != nil {
		return nil, err
	}
	dialed, accepted := m.connect(host, l.host, from, l.at)
	if dialed == nil {
		return nil, fmt.Errorf("connect to %s: %w", address, syscall.ECONNREFUSED)
	}
	select {
	case l.arrivals <- accepted:
		return dialed, nil
	case <-l.closed:
		dialed.reset()
		return nil, fmt.Errorf("connect to %s: %w", address, syscall.ECONNREFUSED)
	case <-ctx.Done():
		dialed.reset()
		return nil, ctx.Err()
	}
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
	return &memoryPort{listener: m, at: fmt.Sprintf("127.0.0.1:%d", m.last)}, nil
}

// memoryPort is an address that nobody else is given.
type memoryPort struct {
	listener interface {
		Listen(address string) (net.Listener, error)
	}
	at string
}

func (p *memoryPort) addr() string                  { return p.at }
func (p *memoryPort) listen() (net.Listener, error) { return p.listener.Listen(p.at) }
func (p *memoryPort) release()                      {}

// memoryListener is one of the listeners of a Memory.
type memoryListener struct {
	memory   *Memory
	host     *Host // nil for nobody's
	at       net.Addr
	arrivals chan *memoryConn
	closed   chan struct{}
	once     sync.Once // closes closed
}

// Accept waits for the next connection; [net.ErrClosed] is the only error.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	case c := <-l.arrivals:
		return c, nil
	}
}

// Addr is the address with its port.
func (l *memoryListener) Addr() net.Addr { return l.at }

// Close refuses connections from now on.
func (l *memoryListener) Close() error {
	l.host.dropListener(l)
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	if l.memory.listeners[l.at.String()] == l {
		delete(l.memory.listeners, l.at.String())
	}
	l.once.Do(func() { close(l.closed) })
	return nil
}
