package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Hint is a message from another node, or a notice that hints may have been missed.
type Hint struct {
	// Payload is the message. Anyone who may publish can have sent it.
	Payload string
	// Part is the part of the channel that it was published on, -1 for the channel itself.
	Part int
	// Missed means that the subscriber must check for itself. Such a hint is the first one, and is
	// sent whenever hints may have been lost: after a connection was lost, or if they arrived
	// faster than they were read. With a part it applies to that part alone, which the subscription
	// has just added.
	Missed bool
}

const (
	// hintsKept is how many hints are buffered for a subscriber.
	hintsKept = 64
	// quiet is how long a connection may be silent until it is checked with a ping.
	quiet = 5 * time.Second
)

// Hint publishes a payload to subscribers of a channel, on any node. It may get lost.
func (s *Store) Hint(ctx context.Context, channel Channel, payload string) error {
	_, err := s.call(ctx, "publish", len(payload), func(ctx context.Context) (any, error) {
		return s.client.Publish(ctx, s.Channel(channel), payload).Result()
	})
	return err
}

// Hints subscribes to a channel until ctx ends or the store is closed; then the returned channel is
// closed. It reconnects as often as necessary. A subscriber that reads hints too slowly gets one
// with Missed instead of them.
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

// listen forwards what one subscription receives until it fails. It reports whether the
// subscription was confirmed, and why it ended.
func (s *Store) listen(ctx context.Context, channel Channel, parts *Parts, out chan Hint) (subscribed bool, ended error) {
	sub := s.client.Subscribe(ctx) // to nothing: this opens no connection
	defer sub.Close()
	p := &partial{store: s, channel: channel, parts: parts, has: make(map[int]struct{}), sub: sub}
	if err := p.begin(ctx); err != nil {
		return false, err
	}
	ctx, end := context.WithCancelCause(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer end(nil)
	heard, pinged := time.Now(), false
	for {
		got, err := receive(ctx, sub)
		var late net.Error
		switch silent := time.Since(heard); {
		case err == nil:
			heard, pinged = time.Now(), false
		case ctx.Err() != nil:
			return subscribed, context.Cause(ctx)
		case !errors.As(err, &late), !late.Timeout(), silent >= 2*quiet:
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
				continue // the same part is subscribed as a plain channel next
			}
			part := s.partOf(channel, got.Channel)
			if parts != nil && part < 0 && !subscribed {
				following.Go(func() { end(p.followAll(ctx)) })
			}
			subscribed = subscribed || part < 0
			if subscribed { // parts that are confirmed earlier belong to the initial subscription
				sendHint(out, Hint{Missed: true, Part: part})
			}
		case *redis.Message:
			sendHint(out, Hint{Payload: got.Payload, Part: s.partOf(channel, got.Channel)})
		}
	}
}

// errRenew ends a subscription with many parts that are no longer wanted.
var errRenew = errors.New("the subscription is made again without the parts that are not wanted any more")

// errMoved ends a subscription whose sharded channels have moved to another server of the cluster.
var errMoved = errors.New("another server of the cluster has the sharded channels")

// receive waits for the next message until the connection has been quiet for too long. The deadline
// is for reconnecting.
//
// Receiving does not check whether ctx has ended, so the end closes the subscription. Nothing else
// needs that: it would only wait for the lock under which a subscription connects and sends.
func receive(ctx context.Context, sub *redis.PubSub) (any, error) {
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	ctx, cancel := context.WithTimeout(ctx, 2*quiet)
	defer cancel()
	return sub.ReceiveTimeout(ctx, quiet)
}

// sendHint sends a hint without waiting. If the buffer is full, it drops an older one and sends a
// hint with Missed instead of h.
func sendHint(out chan Hint, h Hint) {
	select {
	case out <- h:
		return
	default:
	}
	select {
	case <-out:
	default:
	}
	out <- Hint{Missed: true, Part: -1} // there is room: this goroutine is the only sender
}
