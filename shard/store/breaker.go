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
)

// ErrDown is the error of a call that was not made, since Redis is out of reach.
var ErrDown = errors.New("redis is out of reach")

// State is how Redis is.
type State struct {
	// Up is false while calls are not made, but for one every few seconds.
	Up bool `json:"up"`
	// Since is when that began.
	Since time.Time `json:"since"`
	// Error is what the last call failed with that made it so, and while Redis is up
	// what it refuses to do, as when it is read-only. Empty means that all is well.
	Error string `json:"error,omitempty"`
	// Problem is what that means, and Hint what to do about it, where Redis answered with
	// something that only an operator can change, such as that a password is missing.
	Problem string `json:"problem,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// How many calls in a row have to fail until no more are made, and how long until
// one tries. The time differs from node to node.
const (
	failures = 3
	pause    = time.Second
)

// breaker keeps calls from waiting for a Redis that does not answer. All methods
// are safe for concurrent use.
type breaker struct {
	// Fixed after construction.
	logger  *slog.Logger
	prefix  string // of all names
	circuit *gobreaker.CircuitBreaker[any]

	mu sync.Mutex
	// Guarded by mu.
	up      bool
	since   time.Time
	last    error            // why the last call failed that Redis did not answer
	refused map[string]error // by the call's name: with what Redis answered
}

func newBreaker(logger *slog.Logger, prefix string) *breaker {
	b := &breaker{logger: logger, prefix: prefix, up: true, since: time.Now(), refused: make(map[string]error)}
	b.circuit = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		Timeout:       pause*4/5 + rand.N(pause*2/5),
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
		IsSuccessful:  func(err error) bool { return !unreachable(err) },
		IsExcluded:    func(err error) bool { return isGivenUp(err) },
		OnStateChange: b.turned,
	})
	return b
}

// do makes a call if there is any use in it.
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

// note takes down how a call ended, and logs what Redis begins to refuse, or to
// grant again.
func (b *breaker) note(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, was := b.refused[name]
	switch {
	case isGivenUp(err):
	case unreachable(err):
		b.last = err
	case err != nil:
		b.refused[name] = err
		if !was || !sameKind(before.Error(), err.Error()) {
			b.logger.Warn("Redis refuses", append([]any{"call", name}, b.attributes(err)...)...)
		}
	case was:
		delete(b.refused, name)
		b.logger.Info("Redis no longer refuses", "call", name)
	}
}

// turned is called by the circuit, under its lock.
func (b *breaker) turned(_ string, _, to gobreaker.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	up := to == gobreaker.StateClosed
	if up == b.up || to == gobreaker.StateHalfOpen {
		return
	}
	b.up, b.since = up, time.Now()
	if up {
		b.last = nil
		b.logger.Info("Redis is back")
	} else if _, denied := deniedBy(b.last, b.prefix); denied {
		b.logger.Warn("Redis rejects this node, which serves without it", b.attributes(b.last)...)
	} else {
		b.logger.Warn("Redis is out of reach; this node serves on without it", b.attributes(b.last)...)
	}
}

// attributes are those of a log line about an error.
func (b *breaker) attributes(err error) []any {
	all := []any{"error", err}
	if d, ok := deniedBy(err, b.prefix); ok {
		all = append(all, "problem", d.problem, "hint", d.hint)
	}
	return all
}

// current is the state for others.
func (b *breaker) current() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := State{Up: b.up, Since: b.since}
	err := b.last
	if b.up {
		err = nil
		for name, one := range b.refused {
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

// unreachable tells whether an error means that nothing can be had of Redis for now.
// What it answered to this call alone, such as READONLY or an error of a script, is
// none of these.
func unreachable(err error) bool {
	var answer redis.Error
	switch {
	case err == nil, isGivenUp(err):
		return false
	case !errors.As(err, &answer):
		return true
	}
	return redis.IsLoadingError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) ||
		redis.IsMaxClientsError(err) || redis.IsAuthError(err) || redis.IsTryAgainError(err)
}

// givenUp is the error of a call whose context was over: it says nothing of Redis.
type givenUp struct{ err error }

func (g *givenUp) Error() string { return g.err.Error() }
func (g *givenUp) Unwrap() error { return g.err }

func isGivenUp(err error) bool {
	var g *givenUp
	return errors.As(err, &g)
}

// sameKind tells whether two answers begin with the same word, such as READONLY.
func sameKind(a, b string) bool { return word(a) == word(b) }

func word(s string) string {
	for i := range len(s) {
		if s[i] == ' ' {
			return s[:i]
		}
	}
	return s
}
