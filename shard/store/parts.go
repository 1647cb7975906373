package store

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Parts are the parts of a channel that a subscriber wants. All methods are safe for concurrent
// use.
type Parts struct {
	changed chan struct{} // signalled when wanted may have changed

	mu sync.Mutex
	// Guarded by mu.
	wanted  map[int]struct{}
	sharded bool
	lacking string // why there are no sharded channels, as logged
}

// NewParts creates an empty set.
func NewParts() *Parts {
	return &Parts{changed: make(chan struct{}, 1), wanted: make(map[int]struct{})}
}

// Set adds a part, or removes it. An established subscription follows at once, apart from
// followPause.
func (p *Parts) Set(part int, wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wanted {
		p.wanted[part] = struct{}{}
	} else {
		delete(p.wanted, part)
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Sharded reports whether the last subscription to these parts includes the sharded channels: then
// this node receives messages from both.
func (p *Parts) Sharded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sharded
}

// noteSharded records that a subscription has sharded channels, or why it has none. It reports
// whether the reason is new.
func (p *Parts) noteSharded(lacking error) (isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sharded = lacking == nil
	text := ""
	if lacking != nil {
		text = errorPrefix(lacking.Error())
	}
	isNew = text != "" && text != p.lacking
	p.lacking = text
	return isNew
}

// fewUnwanted is how many unwanted parts a subscription may keep.
const fewUnwanted = 64

// missing adds wanted parts to those of a subscription, and returns the added ones. renew is true
// if so many parts are unwanted that a new subscription pays: UNSUBSCRIBE is not used, since it
// would require another right of the Redis user.
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

// partial is a subscription to a channel and to parts of it. Once it is confirmed, one goroutine
// receives from sub, and another one, of followAll, uses the rest. The second may block while the
// first one reconnects.
type partial struct {
	store   *Store
	channel Channel
	parts   *Parts           // nil for none
	has     map[int]struct{} // subscribed parts
	sharded bool             // also as sharded channels
	sub     *redis.PubSub
}

// begin connects and subscribes.
func (p *partial) begin(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, p.store.cfg.Timeout)
	defer cancel()
	if err := p.shard(within); err != nil {
		return err
	}
	parts, _ := p.missing()
	return p.subscribe(within, parts, p.store.Channel(p.channel)) // it is confirmed last
}

// shard connects, in a cluster, with the server of the sharded channels, and finds out whether this
// node may use them. Redis supports them since 7.0, and the servers of a cluster may have different
// versions.
func (p *partial) shard(ctx context.Context) error {
	if _, cluster := p.store.client.(*redis.ClusterClient); p.parts == nil || !cluster {
		return nil
	}
	err := p.sub.SSubscribe(ctx, p.store.ShardedChannel(p.channel))
	if err == nil {
		_, err = p.sub.ReceiveTimeout(ctx, p.store.cfg.Timeout)
	}
	if err != nil && !lacksSharded(err) {
		return err
	}
	p.sharded = err == nil
	if p.parts.noteSharded(err) {
		p.store.cfg.Logger.Info("Redis has no sharded channels for this node; all servers of the cluster get the hints of the tier", "error", err)
	}
	return nil
}

// lacksSharded reports whether an answer means that a server has no sharded channels, or does not
// allow them for this user.
func lacksSharded(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "unknown command")
}

// missing returns the missing parts; see [Parts].
func (p *partial) missing() (parts []int, renew bool) {
	if p.parts == nil {
		return nil, false
	}
	return p.parts.missing(p.has)
}

// subscribe subscribes to parts and other channels. Sharded channels are first: once the others are
// confirmed, no hint about a part is missed, whichever channel it is published on.
func (p *partial) subscribe(ctx context.Context, parts []int, others ...string) error {
	var names, sharded []string
	for _, part := range parts {
		names = append(names, p.store.PartChannel(p.channel, part))
		sharded = append(sharded, p.store.ShardedPart(p.channel, part))
	}
	if p.sharded && len(sharded) > 0 {
		if err := p.sub.SSubscribe(ctx, sharded...); err != nil {
			return err
		}
	}
	return p.sub.Subscribe(ctx, append(names, others...)...)
}

// followPause is the shortest time between two additions to a subscription: many keys that become
// active together share a few of them.
const followPause = 20 * time.Millisecond

// followAll subscribes to parts as soon as they are wanted, until ctx ends or that fails.
func (p *partial) followAll(ctx context.Context) error {
	for {
		if err := p.follow(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-p.parts.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow subscribes to newly wanted parts.
func (p *partial) follow(ctx context.Context) error {
	parts, renew := p.missing()
	if renew {
		return errRenew
	}
	if len(parts) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, p.store.cfg.Timeout)
	defer cancel()
	return p.subscribe(within, parts)
}
