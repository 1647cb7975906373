package fanout

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/lockorder"
)

// chunk is how many streams a worker flushes before other workers may take over the rest of a
// subscription's clients.
const chunk = 64

// Pool propagates changes from the cache to the clients: [Pool.Wake] queues the subscriptions that
// changed, and a few workers flush their clients. A subscription that changes again while it is
// queued remains one entry.
type Pool struct {
	mu   lockorder.Mutex[lockorder.Leaf]
	cond *sync.Cond
	// Guarded by mu.
	queue   []wakeUp
	queued  map[wakeUp]struct{}
	clients [][]cache.Client // chunks of clients to flush
	pacing  pacing
	closed  bool

	lengths atomic.Pointer[map[string]time.Duration] // of minimum intervals; see SetIntervals

	workers sync.WaitGroup
}

// wakeUp is the clients of a subscription that are to be flushed: all, or only those that must be
// woken at once.
type wakeUp struct {
	sub    *cache.Subscription
	prompt bool
}

// NewPool starts a pool; workers below 1 means one per CPU.
func NewPool(workers int) *Pool {
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	p := &Pool{queued: make(map[wakeUp]struct{})}
	p.cond = sync.NewCond(&p.mu)
	for range workers {
		p.workers.Go(p.work)
	}
	return p
}

// Wake queues subs, whose clients may lack content, except for those that wait for the end of a
// minimum interval. It never blocks.
func (p *Pool) Wake(subs []*cache.Subscription) {
	paced := false
	p.mu.Lock()
	for _, s := range subs {
		if p.intervalFor(s) > 0 {
			paced = true
			continue
		}
		p.enqueueLocked(wakeUp{sub: s})
	}
	p.mu.Unlock()
	if paced {
		for _, s := range subs {
			if length := p.intervalFor(s); length > 0 {
				p.pace(s, length)
			}
		}
	}
	p.cond.Broadcast()
}

func (p *Pool) enqueueLocked(w wakeUp) {
	if _, dup := p.queued[w]; !dup {
		p.queued[w] = struct{}{}
		p.queue = append(p.queue, w)
	}
}

// Close stops the workers and waits for them.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.endAllLocked()
	p.mu.Unlock()
	p.cond.Broadcast()
	p.workers.Wait()
}

func (p *Pool) work() {
	for {
		clients, ok := p.next()
		if !ok {
			return
		}
		for _, c := range clients {
			c.Flush()
		}
	}
}

// next returns the next chunk of clients. If there is none it splits up the clients of a queued
// subscription. ok is false once the pool is closed.
func (p *Pool) next() (clients []cache.Client, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return nil, false
		case len(p.clients) > 0:
			last := len(p.clients) - 1
			clients = p.clients[last]
			p.clients[last] = nil // so that ended streams are freed
			p.clients = p.clients[:last]
			return clients, true
		case len(p.queue) > 0:
			w := p.queue[0]
			p.queue[0] = wakeUp{}
			p.queue = p.queue[1:]
			delete(p.queued, w) // before reading the clients: a later change queues it again
			p.mu.Unlock()
			all := w.clients()
			p.mu.Lock()
			for len(all) > 0 {
				n := min(chunk, len(all))
				p.clients = append(p.clients, all[:n:n])
				all = all[n:]
			}
			p.cond.Broadcast()
		default:
			p.cond.Wait()
		}
	}
}

func (w wakeUp) clients() []cache.Client {
	if w.prompt {
		return w.sub.PromptWatchers(nil)
	}
	return w.sub.Watchers(nil)
}
