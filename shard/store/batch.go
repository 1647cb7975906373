package store

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Call is one call of a script.
type Call struct {
	// Keys are names with the same tag; each call may have another tag.
	Keys []string
	Args []any
}

// Result is the result of a call.
type Result struct {
	Reply
	Err error
}

// RunEach runs a script for each of calls, in one pipeline, and returns the result of each. The
// error is the first of theirs; an error that means that Redis is unreachable takes precedence. As
// always, some calls may have run despite an error.
func (s *Store) RunEach(ctx context.Context, script *Script, calls []Call) ([]Result, error) {
	results := make([]Result, len(calls))
	if len(calls) == 0 {
		return results, nil
	}
	size := 0
	for _, c := range calls {
		size += sizeOf(c.Args)
	}
	sent := false
	_, err := s.call(ctx, script.name, size, func(ctx context.Context) (any, error) {
		sent = true
		all := make([]int, len(calls))
		for i := range all {
			all[i] = i
		}
		unknown := s.runSome(ctx, calls, all, results, func(p redis.Pipeliner, c Call) *redis.Cmd {
			return p.EvalSha(ctx, script.lua.Hash(), c.Keys, c.Args...)
		})
		// Each server of a cluster must load the script.
		s.runSome(ctx, calls, unknown, results, func(p redis.Pipeliner, c Call) *redis.Cmd {
			return script.lua.Eval(ctx, p, c.Keys, c.Args...)
		})
		var first error
		for _, r := range results {
			if first == nil || unreachable(r.Err) && !unreachable(first) {
				first = r.Err
			}
		}
		return nil, first
	})
	if !sent {
		for i := range results {
			results[i].Err = err
		}
	}
	return results, err
}

// runSome runs the calls with the indexes in some. It returns those for which the server did not
// know the script.
func (s *Store) runSome(ctx context.Context, calls []Call, some []int, results []Result, run func(redis.Pipeliner, Call) *redis.Cmd) (unknown []int) {
	if len(some) == 0 {
		return nil
	}
	p := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(some))
	for i, at := range some {
		cmds[i] = run(p, calls[at])
	}
	_, _ = p.Exec(ctx) // each command has its own error
	for i, at := range some {
		value, err := cmds[i].Result()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			unknown = append(unknown, at)
			continue
		case errors.Is(err, redis.Nil):
			err = nil
		}
		results[at] = Result{Reply{value}, err}
	}
	return unknown
}
