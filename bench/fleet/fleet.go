package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"xdsrelay/bench/control"
	"xdsrelay/bench/fleet/h2"
)

// Fleet is simulated clients. Its methods may be called from any goroutine, one
// of [Fleet.Connect], [Fleet.Await], [Fleet.Storm] and [Fleet.Settle] at a time.
type Fleet struct {
	// Fixed after construction.
	cfg            Config
	types          kindSet
	calls          [kinds]*h2.Call
	dialer, narrow *h2.Dialer // narrow is for those that stop reading
	loopback       bool       // all servers are on this machine
	traffic        h2.Traffic
	views          []*view // by key
	meters         []*meter
	links          []*link
	clients        []*client
	ramp           *ramp
	life           context.Context
	end            context.CancelFunc
	rest           context.CancelFunc // ends the churn
	rested         chan struct{}      // closed when it has ended

	world      world
	violations violations
	ends       ends
	exposure   atomic.Pointer[exposure] // nil unless clients react to a revision

	connected, synced atomic.Int64

	work sync.WaitGroup

	mu      sync.Mutex
	started int // guarded by mu; how many links run
}

// New prepares a fleet. The caller has to call [Fleet.Close].
func New(cfg Config) (*Fleet, error) {
	f := &Fleet{}
	var err error
	if f.types, err = cfg.complete(); err != nil {
		return nil, err
	}
	f.cfg = cfg
	f.loopback = true
	for _, a := range cfg.Addrs {
		at, err := netip.ParseAddrPort(a)
		f.loopback = f.loopback && err == nil && at.Addr().Is4() && at.Addr().IsLoopback()
	}
	if err := f.prepareCalls(); err != nil {
		return nil, err
	}
	connections := (cfg.Clients + cfg.StreamsPerConn - 1) / cfg.StreamsPerConn
	if err := control.OpenFiles(connections + 100); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	f.ramp = newRamp(cfg.ConnectParallel, cfg.ConnectRate)
	for range runtime.GOMAXPROCS(0) { // so many clients measure at a time
		f.meters = append(f.meters, newMeter())
	}
	for key := range cfg.Content.Keys {
		f.views = append(f.views, newView(f, key))
	}
	f.links = make([]*link, connections)
	dealt := roles(connections, map[role]float64{slow: cfg.Slow, stuck: cfg.Stuck, rejecting: cfg.Nack, restless: cfg.Churn})
	for i := range f.links {
		l := &link{fleet: f, number: i, role: dealt[i]}
		for n := i * cfg.StreamsPerConn; n < min((i+1)*cfg.StreamsPerConn, cfg.Clients); n++ {
			l.clients = append(l.clients, newClient(l, cfg.FirstClient+n, dealt[i]))
		}
		if err := l.secure(); err != nil {
			return nil, err
		}
		f.clients = append(f.clients, l.clients...)
		f.links[i] = l
	}
	f.life, f.end = context.WithCancel(context.Background())
	var unrest context.Context
	unrest, f.rest = context.WithCancel(f.life)
	f.rested = make(chan struct{})
	f.work.Go(func() { f.churn(unrest) })
	return f, nil
}

// prepareCalls makes what all connections and streams have in common.
func (f *Fleet) prepareCalls() error {
	cfg := h2.Config{TLS: f.cfg.TLS, Plain: f.cfg.Plain, Traffic: &f.traffic}
	var err1, err2 error
	f.dialer, err1 = h2.NewDialer(cfg)
	cfg.ReceiveBuffer = 4096 // so that servers notice soon
	f.narrow, err2 = h2.NewDialer(cfg)
	errs := []error{err1, err2}
	host, _, err := net.SplitHostPort(f.cfg.Addrs[0])
	errs = append(errs, err)
	for k := range kinds {
		of := k
		if !f.cfg.PerType {
			of = kinds
		}
		f.calls[k], err = h2.NewCall(h2.CallOptions{
			Method: method(of, f.cfg.Delta), Authority: host, TLS: f.cfg.TLS != nil, Gzip: f.cfg.Gzip,
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// perSource is how many connections are made from one loopback address, each of
// which has some 28,000 ports.
const perSource = 20_000

// source is the address that a connection begins at; nil leaves it to the system.
func (f *Fleet) source(link int) net.Addr {
	if !f.loopback || len(f.links) <= perSource {
		return nil
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+link/perSource))}
}

// Close ends all connections and waits for everything to end.
func (f *Fleet) Close() {
	f.end()
	for _, l := range f.links {
		if conn := l.conn.Load(); conn != nil {
			conn.Close()
		}
	}
	f.work.Wait()
}

// start lets n more clients connect, or all that do not yet where n is 0.
func (f *Fleet) start(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for running := 0; f.started < len(f.links) && (n == 0 || running < n); f.started++ {
		l := f.links[f.started]
		running += len(l.clients)
		f.work.Go(func() { l.run(f.life) })
	}
}

// running are the clients that were told to connect.
func (f *Fleet) running() []*client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clients[:min(f.started*f.cfg.StreamsPerConn, len(f.clients))]
}

// churn lets one restless client after the other do something until ctx ends.
func (f *Fleet) churn(ctx context.Context) {
	defer close(f.rested)
	var some []*link
	for _, l := range f.links {
		if l.role == restless {
			some = append(some, l)
		}
	}
	if len(some) == 0 {
		return
	}
	tick := time.NewTicker(max(f.cfg.ChurnEvery/time.Duration(len(some)), time.Microsecond))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		l := some[i%len(some)]
		conn := l.conn.Load()
		switch {
		case conn == nil:
		case rand.N(2) == 0:
			l.kick(kickWarm)
		default:
			for _, c := range l.clients {
				conn.Do(c.drop)
				conn.Do(c.restore)
			}
		}
	}
}

// drop makes a client unsubscribe from every second name.
func (c *client) drop() {
	if !c.synced.Load() || !c.open.Load() {
		return
	}
	c.half = true
	for k := range kinds {
		if k.parent() != kinds && c.link.fleet.types.has(k) {
			c.want(k, c.subs[k].names.even())
		}
	}
	c.setSynced(false)
}

// restore makes it subscribe to all of them again.
func (c *client) restore() {
	if !c.half {
		return
	}
	c.half = false
	for k := range kinds {
		if p := k.parent(); p != kinds && c.link.fleet.types.has(k) && c.open.Load() {
			c.want(k, c.subs[p].state.Load().has)
		}
	}
	c.look(time.Now().UnixNano())
}
