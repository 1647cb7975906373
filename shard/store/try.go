package store

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// try uses every command that scripts of a node use, and removes everything that it writes.
var try = NewScript("try", `
redis.call('TIME')
redis.call('HSET', KEYS[1], 'a', 'b')
redis.call('HGET', KEYS[1], 'a')
redis.call('HGETALL', KEYS[1])
redis.call('PEXPIRE', KEYS[1], 60000)
redis.call('HDEL', KEYS[1], 'a')
redis.call('SET', KEYS[2], 'a', 'PX', 60000)
redis.call('GETRANGE', KEYS[2], 0, -1)
redis.call('EXISTS', KEYS[2])
redis.call('DEL', KEYS[2])
redis.call('PUBLISH', ARGV[1], '')
return 1
`)

// Try checks whether Redis supports everything that a node needs. It writes under names of its own,
// which it removes. The error has the problem, and what to do if that is known.
func (s *Store) Try(ctx context.Context) error {
	name, channel := s.cfg.Prefix+":{try}:try", s.cfg.Prefix+":try" // no kind of value has these names
	_, err := s.Run(ctx, try, []string{name + ":hash", name + ":text"}, channel)
	if err == nil {
		_, err = s.call(ctx, "subscribe", 0, func(ctx context.Context) (any, error) {
			sub := s.client.Subscribe(ctx, channel)
			defer sub.Close()
			_, err := sub.Receive(ctx)
			return nil, err
		})
	}
	if d, ok := deniedBy(err, s.cfg.Prefix); ok {
		return fmt.Errorf("%s: %w; %s", d.problem, err, d.hint)
	}
	return err
}

// noteHints records how a subscription to hints ended. Only an answer of Redis that denies it is
// reported; calls report all other errors.
func (s *Store) noteHints(subscribed bool, err error) {
	if _, moved := redis.IsMovedError(err); moved {
		return // the sharded channels of a cluster have moved: the next attempt finds the server
	}
	if _, denied := deniedBy(err, s.cfg.Prefix); subscribed || denied {
		if subscribed {
			err = nil
		}
		s.breaker.note("subscribe", err)
	}
}
