package rest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// poll is one request that is being answered.
type poll struct {
	// Fixed after construction.
	srv     *Server
	request *request
	key     aggregation.Key
	table   *cache.Table
	news    chan struct{} // holds one signal

	watcher cache.Watcher // belongs to the table

	// Of the last look, owned by the goroutine of the request: what there was, and
	// whether it cannot be compared with what the client has, since too little is known.
	seen   cache.Seen
	unsure bool
}

// Flush tells that there may be news.
func (p *poll) Flush() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// poll answers a request: at once if there is something to tell, and otherwise
// when there is, or when the hold is over (H4).
func (s *Server) poll(ctx context.Context, t *resource.Type, q *request) *answer {
	if s.cfg.Private != nil && s.cfg.Private(t) || q.ownSecrets && resource.HoldsSecrets(t.URL) {
		return private()
	}
	g := s.cfg.Cache.Join(q.group.Key, q.group.Node)
	defer s.cfg.Cache.Leave(g)
	p := &poll{srv: s, request: q, key: q.group.Key, table: g.Table(t), news: make(chan struct{}, 1), unsure: true}
	p.watcher.Client = p
	if over := p.table.Replace(&p.watcher, q.wildcard, q.names).Over; over != nil {
		return refusal(s.cfg.Limits.Refuse(limit.KeyNames, q.who.host, over.Bytes, over.Bound, "bytes of names of one type asked for by the clients of this key"))
	}
	defer p.table.Leave(&p.watcher)
	v := s.roster.begins(q, t, time.Now())
	a := p.look()
	if a == nil {
		s.metrics.held(1)
		a = p.wait(ctx)
		s.metrics.held(-1)
	}
	s.roster.ends(v, p.table, found{p.seen, a.status == http.StatusOK, p.unsure}, time.Now())
	return a
}

func (p *poll) wait(ctx context.Context) *answer {
	deadline := time.Now().Add(p.srv.cfg.Hold)
	timer := time.NewTimer(p.srv.cfg.Hold)
	defer timer.Stop()
	drained := p.srv.drained
	for {
		select {
		case <-p.news:
			if a := p.look(); a != nil {
				return a
			}
		case <-timer.C:
			if a := p.look(); a != nil {
				return a
			}
			return p.nothing()
		case <-drained:
			drained = nil
			timer.Reset(min(time.Until(deadline), rand.N(p.srv.over+1)))
		case <-ctx.Done():
			return &answer{status: statusGone}
		}
	}
}

// look returns what there is to tell now; nil for nothing.
func (p *poll) look() *answer {
	h := p.table.Head(&p.watcher)
	if h.Private {
		return private()
	}
	seen := p.sees(h, p.table.Seen(&p.watcher))
	if !p.tells(h, seen) {
		return nil
	}
	k := contentKey{p.key, p.table.Type.URL, seen.Version, seen.Source}
	if a := p.srv.answers.Slot(k).Value(); a != nil {
		return a
	}
	seen, all := p.table.Content(&p.watcher)
	if p.sees(h, seen); !p.tells(h, seen) {
		return nil // it changed just now, and Flush is about to be called
	}
	k.version, k.source = seen.Version, seen.Source
	return p.srv.answers.Fill(k, p.srv.answers.Slot(k), func() (*answer, int64) {
		a := p.srv.encode(p.key, p.table.Type, seen, all)
		return a, int64(len(a.body))
	})
}

// sees notes what there is.
func (p *poll) sees(h cache.Head, seen cache.Seen) cache.Seen {
	p.seen, p.unsure = seen, h.Held || !h.Known && (p.table.Type.FullState || seen.Resources == 0)
	return seen
}

// private is the answer where a resource must not be kept or shared (K17): a poll
// has no stream that could stand for the client upstream, and an answer without
// the resource would read as its removal.
func private() *answer {
	return refuse(codes.Unimplemented, http.StatusNotImplemented,
		"what is asked for is meant for each client by itself, and cannot be polled: expected a gRPC stream")
}

// tells reports whether the client is told what is seen.
func (p *poll) tells(h cache.Head, seen cache.Seen) bool {
	full, had := p.table.Type.FullState, p.request.version
	switch {
	case h.Held, seen.Version == had: // H4
		return false
	case !h.Known && (full || seen.Resources == 0):
		return false // K13: what is left out would read as removed
	case !full && seen.Resources == 0 && had != "":
		return false // B32: this would delete nothing
	}
	return true
}

// nothing is the answer when there was nothing to tell.
func (p *poll) nothing() *answer {
	h := p.table.Head(&p.watcher)
	switch {
	case p.request.version != "":
		return &answer{status: http.StatusNotModified}
	case h.Hopeless: // K15
		return refuse(codes.Unavailable, http.StatusServiceUnavailable,
			"the origin of the configuration cannot be reached, and nothing is known yet of what was asked for")
	}
	return refuse(codes.Unavailable, http.StatusServiceUnavailable,
		"the origin of the configuration has not answered yet for what was asked for")
}
