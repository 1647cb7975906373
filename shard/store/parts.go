package store

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Parts are the parts of a channel that a subscriber wants. All methods are safe for
// concurrent use.
type Parts struct {
	mu     sync.Mutex
	wanted map[int]struct{} // guarded by mu
}

// NewParts makes an empty set.
func NewParts() *Parts { return &Parts{wanted: make(map[int]struct{})} }

// Set adds a part, or takes it out. A subscription follows within a second.
func (p *Parts) Set(part int, wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wanted {
		p.wanted[part] = struct{}{}
	} else {
		delete(p.wanted, part)
	}
}

// fewUnwanted is how many parts that are not wanted any more make no difference.
const fewUnwanted = 64

// missing adds parts that are wanted to those that a subscription has, and returns which.
// It reports whether so many are not wanted any more that a new subscription pays: there is
// no UNSUBSCRIBE, for which users of Redis would need another right.
func (p *Parts) missing(has map[int]struct{}) (parts []int, renew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for part := range p.wanted {
		if _, ok := has[part]; !ok {
			has[part] = struct{}{}
			parts = append(parts, part)
		}
	}
	return parts, len(has) > 2*len(p.wanted)+fewUnwanted
}

// partial is a subscription to a channel and to parts of it. It is for one goroutine: a
// subscription that is used by another one while it connects blocks that.
type partial struct {
	store   *Store
	channel Channel
	parts   *Parts           // nil for none
	has     map[int]struct{} // that are subscribed to
	sub     *redis.PubSub
}

// begin connects and subscribes.
func (p *partial) begin(ctx context.Context) error {
	names, _ := p.missing()
	within, cancel := context.WithTimeout(ctx, p.store.cfg.Timeout)
	defer cancel()
	return p.sub.Subscribe(within, append(names, p.store.Channel(p.channel))...) // it is confirmed last
}

// missing are the channels of missing parts; see [Parts].
func (p *partial) missing() (names []string, renew bool) {
	if p.parts == nil {
		return nil, false
	}
	parts, renew := p.parts.missing(p.has)
	for _, part := range parts {
		names = append(names, p.store.PartChannel(p.channel, part))
	}
	return names, renew
}

// follow subscribes to parts that have come to be wanted. An error ends the subscription.
func (p *partial) follow(ctx context.Context) error {
	names, renew := p.missing()
	if renew {
		return errRenew
	}
	if len(names) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, p.store.cfg.Timeout)
	defer cancel()
	return p.sub.Subscribe(within, names...)
}
