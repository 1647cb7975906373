package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/cache"
)

// runner keeps one key in step. All of its fields and all sending belong to the
// goroutine that calls run; links only hand events over.
type runner struct {
	// Fixed after construction.
	cp     *ControlPlane
	feed   *cache.Feed
	events chan event // unbuffered: a link waits until its event is dealt with
	links  []*link    // by server; nil while that server is not tried

	following *Following // of a key that another node owns; nil otherwise

	up    bool // some session takes part
	timer *time.Timer
	group sync.WaitGroup // the links' goroutines

	// accepted is the version of each type that was acknowledged last, on SotW,
	// of the server that the cache reflects (C1).
	accepted map[string]string
	// source is the index of the server that the cache reflects, -1 before the
	// first response.
	source int
	// stale are the canonical names of resources by type that came from elsewhere (another server, or
	// before the key was idle) and that source has said nothing about. Their
	// versions mean nothing to it (C8). staleOf is the address of the server from
	// which they came, and until there is a source, all that is cached.
	stale   map[string]map[string]struct{}
	staleOf string
}

func newRunner(c *ControlPlane, f *cache.Feed) *runner {
	r := &runner{
		cp: c, feed: f, events: make(chan event), links: make([]*link, len(c.servers)),
		accepted: make(map[string]string), source: -1, stale: make(map[string]map[string]struct{}), staleOf: f.Server(),
	}
	if f.Current() { // the owner of the key said so until a moment ago
		r.source = slices.IndexFunc(c.servers, func(s *server) bool { return s.address == r.staleOf })
	}
	return r
}

// run serves the key until ctx ends, and leaves no goroutine behind.
func (r *runner) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer r.group.Wait()
	defer cancel()
	r.timer = time.NewTimer(time.Hour)
	defer r.timer.Stop()
	defer r.stopFrom(0)
	r.demand(ctx, true)
	for {
		r.arm()
		select {
		case <-ctx.Done():
			return
		case <-r.feed.News():
			r.demand(ctx, false)
		case ev := <-r.events:
			r.handle(ctx, ev)
		case <-r.timer.C:
			r.tick(ctx, time.Now())
		}
	}
}

// sessions goes through the open streams, at most one per server.
func (r *runner) sessions() func(yield func(*session) bool) {
	return func(yield func(*session) bool) {
		for _, l := range r.links {
			if l != nil && l.session != nil && !yield(l.session) {
				return
			}
		}
	}
}

// demand passes on what the clients want now. It is taken whether or not there
// is a stream: a new stream asks for everything anyway.
func (r *runner) demand(ctx context.Context, all bool) {
	demands := r.feed.TakeDemand(all, !r.cp.cfg.Delta)
	for s := range r.streams() {
		r.ask(s, demands, all)
	}
	for s := range r.sessions() {
		r.settle(s, time.Now())
	}
	if len(demands) > 0 && r.links[0] == nil {
		r.start(ctx, 0) // the origin is not bothered before somebody wants something
	}
	r.failover(ctx)
}

// start begins to try a server.
func (r *runner) start(ctx context.Context, index int) {
	ctx, stop := context.WithCancel(ctx)
	l := &link{server: r.cp.servers[index], events: r.events, stop: stop}
	r.links[index] = l
	r.group.Go(func() { l.pursue(ctx) })
}

// stopFrom ends the links to all servers from index on.
func (r *runner) stopFrom(index int) {
	for i, l := range r.links[index:] {
		if l == nil {
			continue
		}
		l.stop()
		r.ended(l)
		r.quit(l)
		r.links[index+i] = nil
	}
}

// failover tries the next server if all better ones cannot be reached and
// something is wanted that is not cached (C15).
func (r *runner) failover(ctx context.Context) {
	for i, l := range r.links {
		switch {
		case l == nil && i == 0:
			return // nothing is wanted yet
		case l == nil:
			if r.feed.Waiting(nil) {
				r.start(ctx, i)
			}
			return
		case !l.failed:
			return
		}
	}
}

// handle deals with what a link has to tell.
func (r *runner) handle(ctx context.Context, ev event) {
	l := ev.link
	if l.probes != nil {
		r.handleProbe(ctx, ev)
		return
	}
	if r.links[l.server.index] != l || ev.session != nil && ev.kind != evOpened && ev.session != l.session {
		return // of a link that was given up
	}
	switch ev.kind {
	case evOpened:
		for other := range r.sessions() {
			other.missed = true // what is taken here is not told to it
		}
		l.session = ev.session
		l.session.node = r.feed.Node()
		r.confirm(l, time.Now())
		demands := r.feed.TakeDemand(true, !r.cp.cfg.Delta)
		r.ask(l.session, demands, true)
		if l.probe != nil && l.probe.session != nil {
			r.ask(l.probe.session, demands, true)
		}
	case evHeaders:
		r.setUp(l.session, true)
	case evResponse:
		r.adopt(l)
		r.setUp(l.session, true)
		r.respond(l.session, ev.response)
	case evFailed, evEnded:
		l.failed = l.failed || !ev.end.responded // C15, as A57 has it
		if r.following == nil && l.session != nil {
			r.judge(l, l.session, ev.end, time.Now())
		}
		if l.session != nil {
			r.exhausted(l.session, ev.end)
		}
		r.ended(l)
		r.repair()
		if errors.Is(ev.end.err, errRenewed) {
			return
		}
		l.server.journal.failed(ev.end.err, ev.end.opened, r.cp.keys.Load())
		if !r.up {
			r.feed.Down(ev.end.err) // C14: nothing else changes
			if r.following != nil {
				r.following.State(ev.end.err)
			}
		}
		r.failover(ctx)
	}
}

// adopt makes l the key's server: it has answered. Worse ones are let go (C15).
func (r *runner) adopt(l *link) {
	l.failed = false
	r.stopFrom(l.server.index + 1)
	r.repair()
	if r.source == l.server.index {
		return
	}
	// What another server's versions stood for is no longer what is cached.
	clear(r.accepted)
	if r.source >= 0 {
		r.staleOf = r.cp.servers[r.source].address
	}
	r.source = l.server.index
	if r.following == nil {
		r.feed.SetServer(l.server.address)
	}
	r.noteStale()
}

// setUp notes that the server takes part in the stream. heard says that it has said something.
func (r *runner) setUp(s *session, heard bool) {
	if s.mute && heard || !s.up {
		r.feed.Mute(!heard)
		s.mute = !heard
	}
	if s.up {
		return
	}
	s.up, s.settleAt = true, time.Time{}
	r.cp.metrics.stream(1)
	s.link.server.journal.connected()
	r.up = true
	if r.following == nil {
		r.feed.Up()
		return
	}
	r.following.State(nil)
	if !r.feed.Waiting(nil) {
		r.feed.Up() // else responses say whether the origin can be reached
	}
}

// ended forgets the session of l, if there is one.
func (r *runner) ended(l *link) {
	s := l.session
	if s == nil {
		return
	}
	l.session = nil
	if s.up {
		r.cp.metrics.stream(-1)
		l.server.journal.disconnected()
	}
	r.up = false
	for other := range r.sessions() {
		r.up = r.up || other.up
	}
}

// repair asks for everything again if a stream may have missed a change. All
// open streams are asked, since taking the demand is what makes one miss it.
func (r *runner) repair() {
	missed := false
	for s := range r.sessions() {
		missed = missed || s.missed
		s.missed = false
	}
	if !missed {
		return
	}
	demands := r.feed.TakeDemand(true, !r.cp.cfg.Delta)
	for s := range r.streams() {
		r.ask(s, demands, true)
	}
}
