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

// poll is a request in progress.
type poll struct {
	// Fixed after construction.
	srv     *Server
	request *request
	key     aggregation.Key
	table   *cache.Table
	news    chan struct{} // capacity 1

	watcher cache.Watcher // owned by the table

	// Of the last look, owned by the goroutine of the request: the content, and whether too little
	// is known to compare it with what the client has.
	seen   cache.Seen
	unsure bool
}

// Flush signals that the content may have changed.
func (p *poll) Flush() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// poll answers a request: at once if the client lacks content, and otherwise when the content
// changes or Hold is over (H4).
func (s *Server) poll(ctx context.Context, t *resource.Type, q *request) *answer {
	if s.cfg.Private != nil && s.cfg.Private(t) || q.ownSecrets && resource.HoldsSecrets(t.URL) {
		return private()
	}
	g := s.cfg.Cache.Join(q.group.Key, q.group.Node)
	defer s.cfg.Cache.Leave(g)
	p := &poll{srv: s, request: q, key: q.group.Key, table: g.Table(t), news: make(chan struct{}, 1), unsure: true}
	p.watcher.Client = p
	if over := p.table.Replace(&p.watcher, q.wildcard, q.names).Over; over != nil {
		return refusal(s.cfg.Limits.Refuse(limit.KeyNames, q.clientID.host, over.Bytes, over.Bound, "bytes of names of one type asked for by the clients of this key"))
	}
	defer p.table.Leave(&p.watcher)
	v := s.registry.begin(q, t, time.Now())
	a := p.look()
	if a == nil {
		s.metrics.held(1)
		a = p.wait(ctx)
		s.metrics.held(-1)
	}
	s.registry.finish(v, p.table, found{p.seen, a.status == http.StatusOK, p.unsure}, time.Now())
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

// look returns the answer if the client lacks content, and nil otherwise.
func (p *poll) look() *answer {
	h := p.table.State(&p.watcher)
	if h.Private {
		return private()
	}
	seen := p.sees(h, p.table.Seen(&p.watcher))
	if !p.mustAnswer(h, seen) {
		return nil
	}
	k := contentKey{p.key, p.table.Type.URL, seen.Version, seen.Source}
	if a := p.srv.answers.Slot(k).Value(); a != nil {
		return a
	}
	seen, all := p.table.Content(&p.watcher)
	if p.sees(h, seen); !p.mustAnswer(h, seen) {
		return nil // it just changed, and Flush is about to be called
	}
	k.version, k.source = seen.Version, seen.Source
	return p.srv.answers.Fill(k, p.srv.answers.Slot(k), func() (*answer, int64) {
		a := p.srv.encode(p.key, p.table.Type, seen, all)
		return a, int64(len(a.body))
	})
}

// sees records the content that was looked at.
func (p *poll) sees(h cache.SubscriptionState, seen cache.Seen) cache.Seen {
	p.seen, p.unsure = seen, h.Held || h.Answer != cache.Answered && (p.table.Type.FullState || seen.Resources == 0)
	return seen
}

// private is the answer if a resource must not be cached or shared (K17): a poll has no upstream
// stream of its own, and an answer without the resource would read as its removal.
func private() *answer {
	return refuse(codes.Unimplemented, http.StatusNotImplemented,
		"the requested type is private to each client and cannot be polled: use a gRPC stream")
}

// mustAnswer reports whether the client gets an answer with this content.
func (p *poll) mustAnswer(h cache.SubscriptionState, seen cache.Seen) bool {
	full, had := p.table.Type.FullState, p.request.version
	switch {
	case h.Held, seen.Version == had: // H4
		return false
	case h.Answer != cache.Answered && (full || seen.Resources == 0):
		return false // K13: missing resources would read as removed
	case !full && seen.Resources == 0 && had != "":
		return false // B32: this would remove nothing
	case p.isBehind(h):
		return false // K12: the client keeps what it has from another node
	}
	return true
}

// isBehind reports whether a client that has content must wait, since the tier head shows that this
// node's is older. The poll is woken when the node has caught up.
func (p *poll) isBehind(h cache.SubscriptionState) bool {
	had := p.request.version
	if had == "" || !h.Behind.Until.After(time.Now()) {
		return false
	}
	newer := h.Behind.ByNameToo
	if h.HasWildcardAlone() {
		newer = p.table.Ahead(had)
	}
	return newer && p.table.Await(&p.watcher)
}

// nothing returns the answer if the client lacked no content until Hold was over.
func (p *poll) nothing() *answer {
	h := p.table.State(&p.watcher)
	switch {
	case p.request.version != "":
		return &answer{status: http.StatusNotModified}
	case h.Answer == cache.OutOfReach: // K15
		return refuse(codes.Unavailable, http.StatusServiceUnavailable,
			"the control plane is unreachable, and this node has no state of the requested resources yet")
	}
	return refuse(codes.Unavailable, http.StatusServiceUnavailable,
		"the control plane has not answered yet for the requested resources")
}
