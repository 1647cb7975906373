package store

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"xdsrelay/relay/events"
)

// ErrDown is the error of a call that was not made because Redis is unreachable.
var ErrDown = errors.New("redis is unreachable")

// State is the state of Redis.
type State struct {
	// Up is false while no calls are made, except for one every few seconds.
	Up bool `json:"up"`
	// Since is when that began.
	Since time.Time `json:"since"`
	// Error is the error of the last failed call while Redis is down. While it is up, it is an
	// operation that Redis rejects, for instance when it is read-only. Empty means no problem.
	Error string `json:"error,omitempty"`
	// Problem explains the error, and Hint says what to do, if Redis gave an answer that only an
	// operator can change, such as a missing password.
	Problem string `json:"problem,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// After so many failed calls in a row no more are made, and after the pause one call tries. The
// pause differs between nodes.
const (
	failures = 3
	pause    = time.Second
)

// breaker keeps calls from waiting for a Redis that does not answer. All methods are safe for
// concurrent use.
type breaker struct {
	// Fixed after construction.
	logger  *slog.Logger
	prefix  string // of all names
	circuit *gobreaker.CircuitBreaker[any]

	mu sync.Mutex
	// Guarded by mu.
	up       bool
	since    time.Time
	last     error            // error of the last call that Redis did not answer
	logged   string           // while Redis is down: the problem that was logged; empty if there was none
	rejected map[string]error // by name of the call: the error that Redis answered
}

func newBreaker(logger *slog.Logger, prefix string) *breaker {
	b := &breaker{logger: logger, prefix: prefix, up: true, since: time.Now(), rejected: make(map[string]error)}
	b.circuit = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		Timeout:       pause*4/5 + rand.N(pause*2/5),
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
		IsSuccessful:  func(err error) bool { return !unreachable(err) },
		IsExcluded:    func(err error) bool { return isCallerCancelled(err) },
		OnStateChange: b.onStateChange,
	})
	return b
}

// do makes a call unless the circuit is open.
func (b *breaker) do(name string, f func() (any, error)) (any, error) {
	value, err := b.circuit.Execute(func() (any, error) {
		value, err := f()
		b.note(name, err)
		return value, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return nil, fmt.Errorf("%w: %s", ErrDown, b.current().Error)
	}
	return value, err
}

// note records the result of a call. It logs when Redis begins to reject a call, or accepts it
// again.
func (b *breaker) note(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, was := b.rejected[name]
	switch {
	case isCallerCancelled(err):
	case unreachable(err):
		b.last = err
		if d, denied := deniedBy(err, b.prefix); !b.up && denied && d.problem != b.logged {
			b.logDownLocked() // Redis did not answer before, or gave another answer
		}
	case err != nil:
		b.rejected[name] = err
		if !was || !sameKind(before.Error(), err.Error()) {
			b.logger.Warn("Redis refuses", append([]any{events.Key, events.RedisRefuses, "call", name}, b.attributes(err)...)...)
		}
	case was:
		delete(b.rejected, name)
		b.logger.Info("Redis no longer refuses", events.Key, events.RedisAccepts, "call", name)
	}
}

// onStateChange is called by the circuit, under its lock.
func (b *breaker) onStateChange(_ string, _, to gobreaker.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	up := to == gobreaker.StateClosed
	if up == b.up || to == gobreaker.StateHalfOpen {
		return
	}
	b.up, b.since = up, time.Now()
	if up {
		b.last = nil
		b.logger.Info("Redis is back", events.Key, events.RedisBack)
	} else {
		b.logDownLocked()
	}
}

// logDownLocked logs why Redis is down.
func (b *breaker) logDownLocked() {
	d, denied := deniedBy(b.last, b.prefix)
	b.logged = d.problem
	if denied {
		b.logger.Warn("Redis rejects this node, which serves without it", append([]any{events.Key, events.RedisDenied}, b.attributes(b.last)...)...)
	} else {
		b.logger.Warn("Redis is unreachable; this node serves without it", append([]any{events.Key, events.RedisLost}, b.attributes(b.last)...)...)
	}
}

// attributes returns the attributes of a log line about an error.
func (b *breaker) attributes(err error) []any {
	all := []any{"error", err}
	if d, ok := deniedBy(err, b.prefix); ok {
		all = append(all, "problem", d.problem, "hint", d.hint)
	}
	return all
}

// current returns the present state.
func (b *breaker) current() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := State{Up: b.up, Since: b.since}
	err := b.last
	if b.up {
		err = nil
		for name, one := range b.rejected {
			if text := name + ": " + one.Error(); err == nil || text < s.Error {
				err, s.Error = one, text
			}
		}
	} else if err != nil {
		s.Error = err.Error()
	}
	if d, ok := deniedBy(err, b.prefix); ok {
		s.Problem, s.Hint = d.problem, d.hint
	}
	return s
}

// unreachable reports whether an error means that Redis cannot be used now. An answer to a single
// call, such as READONLY or an error of a script, does not mean that.
func unreachable(err error) bool {
	var answer redis.Error
	switch {
	case err == nil, isCallerCancelled(err):
		return false
	case !errors.As(err, &answer):
		return true
	}
	return redis.IsLoadingError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) ||
		redis.IsMaxClientsError(err) || redis.IsAuthError(err) || redis.IsTryAgainError(err)
}

// callerCancelled is the error of a call whose context has ended: it says nothing about Redis.
type callerCancelled struct{ err error }

func (g *callerCancelled) Error() string { return g.err.Error() }
func (g *callerCancelled) Unwrap() error { return g.err }

func isCallerCancelled(err error) bool {
	var g *callerCancelled
	return errors.As(err, &g)
}

// sameKind reports whether two answers begin with the same word, such as READONLY.
func sameKind(a, b string) bool { return errorPrefix(a) == errorPrefix(b) }

func errorPrefix(s string) string {
	for i := range len(s) {
		if s[i] == ' ' {
			return s[:i]
		}
	}
	return s
}
