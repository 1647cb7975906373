package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/upstream/quarantine"
	"xdsrelay/upstream/resume"
)

// runner keeps one key synchronized. The goroutine that calls run owns all of its fields and does
// all sending; server streams only hand over events.
type runner struct {
	// Fixed after construction.
	cp            *ControlPlane
	feed          *cache.Feed
	events        chan event      // unbuffered: a server stream waits until its event is handled
	serverStreams []*serverStream // by server; nil while that server is not used

	following *Following // set if another node owns the key; nil otherwise

	timer *time.Timer
	group sync.WaitGroup // goroutines of the server streams

	// content is which servers the content of the cache is from, and so what may be said of it.
	content resume.Content
}

func newRunner(c *ControlPlane, f *cache.Feed) *runner {
	r := &runner{
		cp: c, feed: f, events: make(chan event), serverStreams: make([]*serverStream, len(c.servers)),
	}
	before := f.Server()
	known := slices.ContainsFunc(c.servers, func(s *server) bool { return s.address == before })
	if known && f.Current() { // the owner of the key confirmed it until a moment ago
		r.content.Confirmed(before)
	} else {
		r.content.Restored(before)
	}
	return r
}

// run serves the key until ctx ends. It returns after all its goroutines have ended.
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
			r.judge() // first: demand waits for replies
			r.demand(ctx, false)
		case ev := <-r.events:
			r.handle(ctx, ev)
		case <-r.timer.C:
			r.tick(ctx, time.Now())
		}
	}
}

// sessions iterates over the open streams, at most one per server.
func (r *runner) sessions() func(yield func(*session) bool) {
	return func(yield func(*session) bool) {
		for _, l := range r.serverStreams {
			if l != nil && l.session != nil && !yield(l.session) {
				return
			}
		}
	}
}

// demand passes on what clients want now. It takes the demand whether or not there is a stream: a
// new stream requests everything anyway.
func (r *runner) demand(ctx context.Context, all bool) {
	r.reopenReplaced()
	demands := r.feed.TakeDemandBut(r.defers, all, !r.cp.cfg.Delta)
	for s := range r.streams() {
		r.ask(s, demands, all)
	}
	for s := range r.sessions() {
		r.acceptSilence(s, time.Now())
	}
	if len(demands) > 0 && r.serverStreams[0] == nil {
		r.start(ctx, 0) // the control plane is not contacted before a client wants something
	}
	r.failover(ctx)
}

// wholeDemand returns all that clients want now, for a new stream. Other streams that are open are
// first asked for what has changed.
func (r *runner) wholeDemand(ctx context.Context) []cache.Demand {
	for range r.streams() {
		r.demand(ctx, false)
		return r.feed.CopyDemand(!r.cp.cfg.Delta)
	}
	return r.feed.TakeDemand(true, !r.cp.cfg.Delta)
}

// start begins to open streams to a server.
func (r *runner) start(ctx context.Context, index int) {
	ctx, stop := context.WithCancel(ctx)
	l := &serverStream{server: r.cp.servers[index], events: r.events, stop: stop, earlier: r.feed.Earlier, types: quarantine.Types{Jitter: jittered}}
	r.serverStreams[index] = l
	r.group.Go(func() { l.keepOpen(ctx) })
}

// stopFrom ends the streams to all servers from index on.
func (r *runner) stopFrom(index int) {
	for i, l := range r.serverStreams[index:] {
		if l == nil {
			continue
		}
		l.stop()
		r.closeSession(l)
		r.closeQuarantine(l)
		r.serverStreams[index+i] = nil
	}
}

// failover uses the next server if all better ones cannot be reached and clients want something
// that is not cached (C15).
func (r *runner) failover(ctx context.Context) {
	for i, l := range r.serverStreams {
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

// handle handles an event of a server stream.
func (r *runner) handle(ctx context.Context, ev event) {
	l := ev.serverStream
	if l.probeFor != nil {
		r.handleProbe(ctx, ev)
		return
	}
	if r.serverStreams[l.server.index] != l || ev.session != nil && ev.kind != evOpened && ev.session != l.session {
		return // from an abandoned stream
	}
	switch ev.kind {
	case evOpened:
		demands := r.wholeDemand(ctx)
		l.session = ev.session
		l.session.node = r.feed.Node()
		r.inform(l, l.types.Reconnected(l.session.conn, time.Now())...)
		r.ask(l.session, demands, true)
	case evHeaders:
		r.markUp(l.session, byAnswer)
	case evResponse:
		r.useServer(l)
		r.markUp(l.session, byAnswer)
		r.respond(l.session, ev.response)
	case evFailed, evEnded:
		l.failed = l.failed || !ev.end.responded // C15, as in A57
		if r.following == nil && l.session != nil {
			r.onStreamEnd(l, l.session, ev.end, time.Now())
		}
		if l.session != nil {
			r.exhausted(l.session, ev.end)
		}
		r.closeSession(l)
		if errors.Is(ev.end.err, errRenewed) {
			return
		}
		l.server.journal.failed(ev.end.err, ev.end.opened, r.cp.keys.Load())
		if !r.isUp() {
			r.feed.Down(ev.end.err) // C14: nothing else changes
			if r.following != nil {
				r.following.State(ev.end.err)
			}
		}
		r.failover(ctx)
	}
}

// useServer makes the server of l the source of the key, since it has answered. Streams to worse
// servers end (C15).
func (r *runner) useServer(l *serverStream) {
	l.failed = false
	r.stopFrom(l.server.index + 1)
	if !r.content.Answered(l.server.address) {
		return
	}
	if r.following == nil {
		r.feed.SetServer(l.server.address)
	}
	r.markAll()
}

// markUp records that the server accepts the stream, and why.
func (r *runner) markUp(s *session, why acceptance) {
	if s.accepted >= why {
		return
	}
	was := s.accepted
	s.accepted = why
	r.feed.Mute(why == bySilence)
	if was != unaccepted {
		return
	}
	s.silenceAt = time.Time{}
	r.cp.metrics.stream(1)
	s.serverStream.server.journal.connected()
	if r.following == nil {
		r.feed.Up()
		return
	}
	r.following.State(nil)
	if !r.feed.Waiting(nil) {
		r.feed.Up() // otherwise responses say whether the control plane can be reached
	}
}

// closeSession drops the session of l, if there is one.
func (r *runner) closeSession(l *serverStream) {
	s := l.session
	if s == nil {
		return
	}
	l.session = nil
	if s.up() {
		r.cp.metrics.stream(-1)
		l.server.journal.disconnected()
	}
}

// isUp reports whether some server has accepted its stream.
func (r *runner) isUp() bool {
	for s := range r.sessions() {
		if s.up() {
			return true
		}
	}
	return false
}
