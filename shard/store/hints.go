package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Hint is something that another node has said, or that hints may have been missed.
type Hint struct {
	// Payload is what was said. Anybody who may publish can have said it.
	Payload string
	// Part is the part of the channel that it was published on, -1 for the channel itself.
	Part int
	// Missed means: look for yourself. It comes first, and whenever hints may have
	// been lost: after a connection was lost, or where they came faster than taken. With a
	// part it is about that alone, to which the subscription has just been extended.
	Missed bool
}

const (
	// hintsKept is how many hints wait for whom they are for.
	hintsKept = 64
	// quiet is how long nothing may come until the connection is tried.
	quiet = 5 * time.Second
)

// Hint publishes a payload to subscribers of a channel, on any node. It may get lost.
func (s *Store) Hint(ctx context.Context, channel Channel, payload string) error {
	_, err := s.call(ctx, "publish", len(payload), func(ctx context.Context) (any, error) {
		return s.client.Publish(ctx, s.Channel(channel), payload).Result()
	})
	return err
}

// Hints subscribes to a channel until ctx is over or the store is closed; then what it
// returns is closed. It connects again as often as it takes. A subscriber that is slow to
// take hints gets one that says so instead of them.
func (s *Store) Hints(ctx context.Context, channel Channel) <-chan Hint {
	return s.HintsOf(ctx, channel, nil)
}

// HintsOf is Hints for a channel and those of its parts that are wanted; nil for none.
func (s *Store) HintsOf(ctx context.Context, channel Channel, parts *Parts) <-chan Hint {
	out := make(chan Hint, hintsKept)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		close(out)
		return out
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.life, cancel)
	s.hints.Go(func() {
		defer close(out)
		defer stop()
		defer cancel()
		wait := time.Duration(0)
		for ctx.Err() == nil {
			subscribed, err := s.listen(ctx, channel, parts, out)
			if subscribed {
				wait = 0
			}
			s.noteHints(subscribed, err)
			s.relocate()
			wait = min(2*wait+100*time.Millisecond, quiet)
			select {
			case <-time.After(wait/2 + rand.N(wait)):
			case <-ctx.Done():
			}
		}
	})
	return out
}

// listen passes on what one subscription receives until it breaks, and reports whether it
// was made at all, and why it ended.
func (s *Store) listen(ctx context.Context, channel Channel, parts *Parts, out chan Hint) (subscribed bool, ended error) {
	sub := s.client.Subscribe(ctx) // to nothing: this makes no connection
	defer sub.Close()
	// Receiving does not look at whether the context has ended.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	p := &partial{store: s, channel: channel, parts: parts, has: make(map[int]struct{}), sub: sub}
	if err := p.begin(ctx); err != nil {
		return false, err
	}
	heard, pinged := time.Now(), false
	for {
		got, err := receive(ctx, sub)
		var late net.Error
		switch silent := time.Since(heard); {
		case err == nil:
			heard, pinged = time.Now(), false
		case ctx.Err() != nil, !errors.As(err, &late), !late.Timeout(), silent >= 2*quiet:
			return subscribed, err
		case silent >= quiet && !pinged:
			pinged = true
			if err := sub.Ping(ctx); err != nil {
				return subscribed, err
			}
		}
		switch got := got.(type) {
		case *redis.Subscription:
			switch got.Kind {
			case "sunsubscribe":
				return subscribed, errMoved
			case "ssubscribe":
				continue // the same part is subscribed to as a plain channel next
			}
			part := s.partOf(channel, got.Channel)
			subscribed = subscribed || part < 0
			if subscribed { // parts that came before are part of the beginning
				tell(out, Hint{Missed: true, Part: part})
			}
		case *redis.Message:
			tell(out, Hint{Payload: got.Payload, Part: s.partOf(channel, got.Channel)})
		}
		if subscribed {
			if err := p.follow(ctx); err != nil {
				return subscribed, err
			}
		}
	}
}

// errRenew ends a subscription that has many parts that nobody wants.
var errRenew = errors.New("the subscription is made again without the parts that are not wanted any more")

// errMoved ends a subscription whose sharded channels another server of the cluster has.
var errMoved = errors.New("another server of the cluster has the sharded channels")

// receive waits for what comes next, for a second. The deadline is for connecting again.
func receive(ctx context.Context, sub *redis.PubSub) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*quiet)
	defer cancel()
	return sub.ReceiveTimeout(ctx, time.Second)
}

// tell passes a hint on without waiting: where there is no room, an older one goes,
// and what says so comes last.
func tell(out chan Hint, h Hint) {
	select {
	case out <- h:
		return
	default:
	}
	select {
	case <-out:
	default:
	}
	out <- Hint{Missed: true, Part: -1} // there is room: nobody else sends
}
