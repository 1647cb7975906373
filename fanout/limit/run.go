package limit

import (
	"context"
	"errors"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/events"
	"xdsrelay/relay/pause"
)

// Relief is what the limiter may ask for when memory is nearly used up.
type Relief struct {
	// Shrink empties caches that only save work.
	Shrink func()
	// EndIdle ends some of the connections without streams, to make room for others.
	EndIdle func()
	// Shed ends connections without streams and a few of the most expensive clients. It returns the
	// number of these clients.
	Shed func() int
}

const (
	// interval is the time between two measurements.
	interval = 500 * time.Millisecond
	// shortPause is the time between two measurements of the memory while streams come in sync: a
	// burst can use very much memory in a short time.
	shortPause = 50 * time.Millisecond
)

// Run measures how busy the node is and how much memory it has left, and acts on that, until ctx
// ends. It is called once.
func (l *Limiter) Run(ctx context.Context, r Relief) {
	var (
		m = newMeter()
		p pace
		k memory
	)
	timer := time.NewTimer(0) // the memory limit must be known before many clients connect
	defer timer.Stop()
	g := &measurement{}
	due := time.Now()
	paced := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.burstSignal:
			paced = time.Time{} // measure now
		}
		now := time.Now()
		v := l.Values()
		starting, finished := l.arrivals.starting(now, v.SyncWithin)
		next := &measurement{ceiling: g.ceiling, lag: g.lag, usage: m.read()}
		if now.Sub(paced) >= interval*9/10 { // a timer may be late
			paced = now
			// A node that gets no processor time at all sees that by its own clock.
			next.lag = max(m.lag(), now.Sub(due))
			next.ceiling = p.step(now, next.lag, starting, finished, v)
		}
		relief := k.step(now, next.usage, v.MemoryPercent)
		next.tight = relief.tight
		l.relieve(relief, next, r)
		if l.full.Swap(false) {
			r.EndIdle()
		}
		g = next
		l.measurement.Store(g)
		l.expireKeys(now)
		wait := pause.Next(interval)
		if g.usage.limit > 0 && starting > 0 {
			wait = min(wait, shortPause)
		}
		due = time.Now().Add(wait)
		timer.Reset(wait)
	}
}

// relieve does what is due, and logs when a shortage of memory begins and ends.
func (l *Limiter) relieve(due relief, g *measurement, r Relief) {
	log := l.refusals.log
	before := l.measurement.Load()
	if was := before != nil && before.tight; was != due.tight {
		if due.tight {
			log.Warn("memory is near the limit: refusing new streams, emptying caches", events.Key, events.NodeNearLimit, "percent", g.percent(), "used", g.usage.used, "limit", g.usage.limit)
		} else {
			log.Info("memory is below the limit again: accepting new streams", events.Key, events.NodeBelowLimit, "percent", g.percent())
		}
	}
	if !due.tight {
		return
	}
	l.measurement.Store(g) // before the rest, which takes time
	r.Shrink()
	if due.shed {
		if n := r.Shed(); n > 0 {
			log.Warn("memory is near the limit: the clients with the highest memory use were shed", events.Key, events.ClientsShed, "clients", n, "percent", g.percent())
		}
	}
	if due.collect {
		runtime.GC()
	}
}

func (l *Limiter) expireKeys(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expireKeysLocked(now)
}

// observe registers the metrics of the measurements.
func (l *Limiter) observe(m metric.Meter) error {
	var errs [6]error
	gauge := func(i int, name string, o ...metric.Int64ObservableGaugeOption) (g metric.Int64ObservableGauge) {
		g, errs[i] = m.Int64ObservableGauge(name, o...)
		return g
	}
	connections := gauge(0, "xdsrelay.downstream.connections", metric.WithDescription("Open client connections."))
	starting := gauge(1, "xdsrelay.downstream.syncing_streams", metric.WithDescription("New client streams that are not yet in sync."))
	ceiling := gauge(2, "xdsrelay.downstream.syncing_streams_limit", metric.WithDescription("Maximum of xdsrelay.downstream.syncing_streams; the node refuses new streams above it. 0 means no limit."))
	var memory, lag metric.Float64ObservableGauge
	memory, errs[3] = m.Float64ObservableGauge("xdsrelay.memory.utilization", metric.WithUnit("1"), metric.WithDescription("Memory in use after garbage collection, as a fraction of the memory limit; 0 without a limit."))
	lag, errs[4] = m.Float64ObservableGauge("xdsrelay.scheduling.latency", metric.WithUnit("s"), metric.WithDescription("90th percentile of recent goroutine scheduling latency."))
	_, errs[5] = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		l.mu.Lock()
		open := l.connections
		l.mu.Unlock()
		n, _ := l.arrivals.starting(time.Now(), l.Values().SyncWithin)
		o.ObserveInt64(connections, int64(open))
		o.ObserveInt64(starting, int64(n))
		if g := l.measurement.Load(); g != nil {
			o.ObserveInt64(ceiling, int64(g.ceiling))
			o.ObserveFloat64(lag, g.lag.Seconds())
			o.ObserveFloat64(memory, g.usage.ratio())
		}
		return nil
	}, connections, starting, ceiling, lag, memory)
	return errors.Join(errs[:]...)
}
