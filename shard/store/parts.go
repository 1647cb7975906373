package store

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Parts are the parts of a channel that a subscriber wants. All methods are safe for
// concurrent use.
type Parts struct {
	mu sync.Mutex
	// Guarded by mu.
	wanted  map[int]struct{}
	changed chan struct{} // closed when wanted is another set
}

// NewParts makes an empty set.
func NewParts() *Parts { return &Parts{wanted: make(map[int]struct{}), changed: make(chan struct{})} }

// Set adds a part, or takes it out.
func (p *Parts) Set(part int, wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.wanted[part]; ok == wanted {
		return
	}
	if wanted {
		p.wanted[part] = struct{}{}
	} else {
		delete(p.wanted, part)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// partial is a subscription to parts of a channel. It is used by one goroutine at a time.
type partial struct {
	store   *Store
	channel Channel
	parts   *Parts           // nil for none
	has     map[int]struct{} // that are subscribed to
}

// missing adds the parts that are wanted and not subscribed to, and returns their names.
func (p *partial) missing() (names []string) {
	if p.parts == nil {
		return nil
	}
	p.parts.mu.Lock()
	defer p.parts.mu.Unlock()
	for part := range p.parts.wanted {
		if _, ok := p.has[part]; !ok {
			p.has[part] = struct{}{}
			names = append(names, p.store.PartChannel(p.channel, part))
		}
	}
	return names
}

// fewUnwanted is how many parts that are not wanted any more make no difference.
const fewUnwanted = 64

// unwanted reports whether so many parts are not wanted any more that a new subscription
// pays. There is no UNSUBSCRIBE, for which users of Redis would need another right.
func (p *partial) unwanted() bool {
	p.parts.mu.Lock()
	defer p.parts.mu.Unlock()
	return len(p.has) > 2*len(p.parts.wanted)+fewUnwanted
}

// follow subscribes to parts as they become wanted until stop is called. It closes a
// subscription of which that fails, or that is to be replaced.
func (p *partial) follow(ctx context.Context, sub *redis.PubSub) (stop func()) {
	if p.parts == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			p.parts.mu.Lock()
			changed := p.parts.changed
			p.parts.mu.Unlock()
			if p.unwanted() || p.add(ctx, sub) != nil {
				_ = sub.Close()
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); work.Wait() }
}

// add subscribes to what is missing.
func (p *partial) add(ctx context.Context, sub *redis.PubSub) error {
	names := p.missing()
	if len(names) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, p.store.cfg.Timeout)
	defer cancel()
	return sub.Subscribe(within, names...)
}
