package drive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/control"
)

// Server is an origin or a floor.
type Server interface {
	// Spec is how much there is of what is served.
	Spec() *content.Spec
	// Change makes a change that was intended for a time, and lets all clients
	// know. It returns the change's stamp, with the next revision. It is not
	// called concurrently, but while clients come and go.
	Change(c content.Change, at time.Time) (content.Stamp, error)
	// Counter is what the server counts in.
	Counter() *Counter
	// Listening makes what answers clients, which is used until it is stopped.
	Listening() Listening
}

// Listening is a server's open port, such as a gRPC server.
type Listening interface {
	// Serve accepts connections until Stop, and closes the listener.
	Serve(net.Listener) error
	// Stop ends Serve, cuts all connections and waits until nothing of them runs
	// any more. It is called once.
	Stop()
}

// Driver lets a server listen and change. Its methods may be called from any
// goroutine.
type Driver struct {
	// Fixed after construction.
	server Server
	port   *port
	life   context.Context // ends with Close
	end    context.CancelFunc
	work   sync.WaitGroup // the schedule's goroutine

	changing sync.Mutex // held while the server changes

	mu       sync.Mutex
	last     Changed            // guarded by mu
	schedule context.CancelFunc // guarded by mu: ends the schedule that runs; nil if none does
	late     time.Duration      // guarded by mu
	failed   error              // guarded by mu: what ended the last schedule

	opening sync.Mutex
	up      Listening  // guarded by opening; nil while down
	served  chan error // guarded by opening: what up's Serve returned
}

// New lets a server listen at an address, which is an IPv4 address and a port; 0
// means a free one. The caller has to call [Driver.Close].
func New(server Server, listen string) (*Driver, error) {
	if err := server.Spec().Validate(); err != nil {
		return nil, err
	}
	p, err := holdPort(listen)
	if err != nil {
		return nil, err
	}
	d := &Driver{server: server, port: p}
	d.life, d.end = context.WithCancel(context.Background())
	if err := d.Up(); err != nil {
		p.release()
		return nil, err
	}
	return d, nil
}

// Addr is where the server listens, as host:port, the same for its life.
func (d *Driver) Addr() string { return d.port.addr }

// Close ends the schedule and cuts all connections.
func (d *Driver) Close() {
	d.end()
	d.work.Wait()
	_ = d.Down() // it may be down already
	d.port.release()
}

var (
	errUp   = errors.New("it is up already")
	errDown = errors.New("it is down already")
)

// Up lets the server listen again.
func (d *Driver) Up() error {
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.up != nil {
		return errUp
	}
	l, err := d.port.listen(d.life)
	if err != nil {
		return err
	}
	up, served := d.server.Listening(), make(chan error, 1)
	d.up, d.served = up, served
	go func() { served <- up.Serve(l) }()
	return nil
}

// Down cuts all connections, and lets clients be refused until [Driver.Up].
func (d *Driver) Down() error {
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.up == nil {
		return errDown
	}
	d.up.Stop()
	err := <-d.served
	d.up, d.served = nil, nil
	return err
}

// Change makes one change now.
func (d *Driver) Change(c content.Change) (Changed, error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	busy := d.schedule != nil
	d.mu.Unlock()
	if busy {
		return Changed{}, errScheduled
	}
	return d.change(c, time.Now())
}

// change is for who holds changing.
func (d *Driver) change(c content.Change, at time.Time) (Changed, error) {
	stamp, err := d.server.Change(c, at)
	if err != nil {
		return Changed{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = Changed{Revision: stamp.Revision, At: stamp.At}
	return d.last, nil
}

// Stats is what the server has done since it began.
func (d *Driver) Stats() Stats {
	var s Stats
	d.server.Counter().fill(&s)
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Revision, s.Scheduled, s.Late = d.last.Revision, d.schedule != nil, d.late
	if d.failed != nil {
		s.Error = d.failed.Error()
	}
	return s
}

// Handlers are the orders.
func (d *Driver) Handlers() map[string]control.Handler {
	return map[string]control.Handler{
		OrderChange:   control.On(func(_ context.Context, c content.Change) (Changed, error) { return d.Change(c) }),
		OrderSchedule: control.On(func(_ context.Context, s Schedule) (Planned, error) { return d.Start(s) }),
		OrderStop:     control.On(func(context.Context, control.Nothing) (Changed, error) { return d.Stop(), nil }),
		OrderStats:    control.On(func(context.Context, control.Nothing) (Stats, error) { return d.Stats(), nil }),
		OrderMemory:   control.On(func(context.Context, control.Nothing) (Memory, error) { return measureMemory(), nil }),
		OrderDown:     control.On(func(context.Context, control.Nothing) (control.Nothing, error) { return control.Nothing{}, d.Down() }),
		OrderUp:       control.On(func(context.Context, control.Nothing) (control.Nothing, error) { return control.Nothing{}, d.Up() }),
	}
}

// measureMemory collects twice: what pools keep survives the first time.
func measureMemory() Memory {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Memory{
		Live:      int64(m.HeapAlloc),
		InUse:     int64(m.HeapInuse + m.StackInuse + m.MSpanInuse + m.MCacheInuse + m.BuckHashSys + m.GCSys + m.OtherSys),
		Allocated: int64(m.Mallocs),
	}
}

var errScheduled = fmt.Errorf("a schedule runs; order %q ends it", OrderStop)
