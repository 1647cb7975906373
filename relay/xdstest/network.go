package xdstest

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Direction is one way through a [Network].
type Direction int

// The two ways, and both.
const (
	ToServer Direction = 1 << iota
	ToClient
	BothWays = ToServer | ToClient
)

// Network is a proxy on loopback whose faults a test switches on and off.
// It starts without any. What is switched holds for connections that exist and
// for those to come. Faults add up.
type Network struct {
	port   port    // fixed
	memory *Memory // fixed; nil for TCP
	wg     sync.WaitGroup

	mu       sync.Mutex // guards all below
	target   string
	listener net.Listener // nil while refusing
	links    map[*link]bool
	faults   faults
	changed  chan struct{} // closed and replaced when faults change
	closed   bool

	accepted atomic.Int64
	carried  [2]atomic.Int64 // bytes to the server, to the client
}

// faults is what a link must know for each piece that it forwards.
type faults struct {
	stalled   Direction
	delay     time.Duration
	bandwidth int // bytes per second and direction; 0 is no limit
}

// NewNetwork puts a proxy in front of target ("host:port"). Clients go to
// [Network.Addr].
func NewNetwork(t TB, target string) *Network {
	t.Helper()
	return (*Memory)(nil).NewNetwork(t, target)
}

// NewNetwork is [NewNetwork] on this network.
func (m *Memory) NewNetwork(t TB, target string) *Network {
	t.Helper()
	p, err := m.hold()
	if err != nil {
		t.Fatalf("%v", err)
	}
	n := &Network{port: p, memory: m, target: target, links: make(map[*link]bool), changed: make(chan struct{})}
	t.Cleanup(func() {
		n.Close()
		p.release()
	})
	if err := n.Accept(); err != nil {
		t.Fatalf("%v", err)
	}
	return n
}

// Addr is where clients connect to.
func (n *Network) Addr() string { return n.port.addr() }

// GoString names the network where the steps of a case are logged.
func (n *Network) GoString() string { return n.Addr() }

// Retarget leads new connections to another server; existing ones stay.
func (n *Network) Retarget(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.target = addr
}

// Refuse refuses new connections; existing ones stay.
func (n *Network) Refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener != nil {
		_ = n.listener.Close()
		n.listener = nil
	}
}

// Accept ends Refuse.
func (n *Network) Accept() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener != nil || n.closed {
		return nil
	}
	l, err := n.port.listen()
	if err != nil {
		return err
	}
	n.listener = l
	n.wg.Go(func() { n.serve(l) })
	return nil
}

// Cut resets every connection; new ones are still accepted.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.links {
		l.reset()
	}
}

// Stall stops forwarding the given ways: connections stay open and new ones are
// accepted, but nothing gets through, and after some kilobytes the senders'
// writes block. It replaces an earlier Stall; 0 ends it, and what was held back
// is forwarded.
func (n *Network) Stall(d Direction) { n.set(func(f *faults) { f.stalled = d }) }

// Delay holds each piece of data back for d, each way; 0 ends it.
func (n *Network) Delay(d time.Duration) { n.set(func(f *faults) { f.delay = d }) }

// Bandwidth limits each connection to so many bytes per second each way; 0 is
// no limit.
func (n *Network) Bandwidth(bytesPerSecond int) {
	n.set(func(f *faults) { f.bandwidth = bytesPerSecond })
}

// Heal ends all faults, except that connections which were cut stay cut.
func (n *Network) Heal() error {
	n.set(func(f *faults) { *f = faults{} })
	return n.Accept()
}

func (n *Network) set(change func(*faults)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.faults)
	close(n.changed)
	n.changed = make(chan struct{})
}

// Connections is how many connections are open now and how many were ever
// accepted.
func (n *Network) Connections() (open, ever int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.links), int(n.accepted.Load())
}

// Carried is how many bytes were forwarded so far, each way.
func (n *Network) Carried() (toServer, toClient int64) {
	return n.carried[0].Load(), n.carried[1].Load()
}

// Close cuts everything and waits until nothing of the proxy runs any more.
func (n *Network) Close() {
	n.Refuse()
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.Cut()
	n.wg.Wait()
}

// serve accepts connections until the listener is closed.
func (n *Network) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // a client that was gone before it was accepted
		}
		n.accepted.Add(1)
		n.wg.Go(func() { n.carry(client) })
	}
}

// carry connects a client with the target until either goes.
func (n *Network) carry(client net.Conn) {
	n.mu.Lock()
	target := n.target
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), PatienceHere())
	defer cancel()
	server, err := n.memory.Dial(ctx, target)
	if err != nil {
		abort(client) // the client sees a reset, as behind a balancer without backends
		return
	}
	l := &link{network: n, client: client, server: server, gone: make(chan struct{})}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		l.reset()
		return
	}
	n.links[l] = true
	n.mu.Unlock()
	l.run()
	n.mu.Lock()
	delete(n.links, l)
	n.mu.Unlock()
}

// abort closes a connection with a reset instead of an orderly end.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
