package rollout

import (
	"fmt"
	"slices"
	"time"
)

// Grant is what the budget says to a key.
type Grant uint8

const (
	// Full: there are too few tokens left. The zero value, so that silence grants nothing.
	Full Grant = iota
	// BreakerOpen: too many rollouts have failed, so none starts.
	BreakerOpen
	// Given: the key may have the tokens.
	Given
)

const (
	// renewed is how long tokens last unless their owner renews them.
	renewed = time.Hour
	// wave is how much later than a revision that has passed its first bake another one may be cut, so that
	// both belong to one change of the control plane, and the budget rises for the other one.
	wave = 10 * time.Second
	// MaxFailures is how many failures the breaker remembers.
	MaxFailures = 16
)

// Limits are the budget and the breaker of a tier.
type Limits struct {
	// Shares are the parts of all clients that may have unproven revisions: the first one, and for each
	// first bake of the same change that had no failure the next.
	Shares []Share
	// After this many failures within a time no rollout starts. 0 turns it off.
	Failures int
	Within   time.Duration
}

// DefaultLimits are those without a configuration.
func DefaultLimits() Limits {
	return Limits{Shares: []Share{0.01, 0.1, 1}, Failures: 3, Within: 10 * time.Minute}
}

// Holding is the tokens of one key, until they are renewed too late.
type Holding struct {
	Count   int
	Renewed time.Time
}

// Budget is which keys hold how many tokens, one for each client that has an unproven revision. The
// caller guards it. The zero value holds none.
type Budget struct {
	Held map[string]Holding
	// Passed is when the revisions were cut that have passed their first bake: the newest ones, as many as
	// [Limits.Shares] has shares after the first.
	Passed   []time.Time
	Failures []time.Time // the newest last
	Open     bool        // the breaker
}

// Share is which part of all clients may have unproven revisions before one that was cut at a time may be shown
// to more. It rises with bakes of revisions that were cut about then, or later: those of a change before say
// nothing about it.
func (b *Budget) Share(l *Limits, cut time.Time) Share {
	if len(l.Shares) == 0 {
		return 1
	}
	level := 0
	for _, at := range b.Passed {
		if cut.Sub(at) <= wave {
			level++
		}
	}
	return l.Shares[min(level, len(l.Shares)-1)]
}

// Limit is how many tokens there are for a revision that was cut at a time, in a tier with so many clients.
func (b *Budget) Limit(l *Limits, clients int, cut time.Time) int { return b.Share(l, cut).Of(clients) }

// Used is how many tokens keys hold.
func (b *Budget) Used() (n int) {
	for _, t := range b.Held {
		n += t.Count
	}
	return n
}

// Take makes a key hold so many tokens in all, and returns how many it holds. starts says that it is
// a new revision, and cut when it was cut. A key that needs more than there are at all is given all, if no
// other holds any.
func (b *Budget) Take(l *Limits, key string, count int, starts bool, clients int, cut, now time.Time) (Grant, int) {
	b.expire(now)
	has := b.Held[key].Count
	if starts && b.Open {
		return BreakerOpen, has
	}
	limit, others := b.Limit(l, clients, cut), b.Used()-has
	granted := count
	if count > limit && others == 0 {
		granted = limit
	}
	if granted <= 0 || granted > has && others+granted > limit {
		return Full, has
	}
	b.set(key, granted, now)
	return Given, granted
}

// Renew makes the tokens of a key last.
func (b *Budget) Renew(key string, now time.Time) {
	if t, has := b.Held[key]; has {
		b.set(key, t.Count, now)
	}
}

func (b *Budget) set(key string, count int, now time.Time) {
	if b.Held == nil {
		b.Held = make(map[string]Holding)
	}
	b.Held[key] = Holding{count, now}
}

// GiveBack returns the tokens of a key: its rollout has ended, or its record was not written.
func (b *Budget) GiveBack(key string) { delete(b.Held, key) }

// Pass returns the tokens of a key whose revision, cut at a time, has passed its first bake. Then there are
// more for the others of the same change.
func (b *Budget) Pass(l *Limits, key string, cut time.Time) {
	b.GiveBack(key)
	b.Passed = append(b.Passed, cut)
	slices.SortFunc(b.Passed, time.Time.Compare)
	b.Passed = slices.Clone(b.Passed[max(0, len(b.Passed)-max(0, len(l.Shares)-1)):])
}

// Failed returns the tokens of a key whose revision has failed. There are as few as at first, and the
// breaker may open.
func (b *Budget) Failed(l *Limits, key string, now time.Time) {
	b.GiveBack(key)
	b.Passed = nil
	b.Failures = append(b.Failures, now)
	b.Failures = slices.Clone(b.Failures[max(0, len(b.Failures)-max(MaxFailures, l.Failures)):])
	recent := 0
	for _, at := range b.Failures {
		if now.Sub(at) <= l.Within {
			recent++
		}
	}
	b.Open = b.Open || l.Failures > 0 && recent >= l.Failures
}

// Reset closes the breaker, by order.
func (b *Budget) Reset() { b.Open, b.Failures = false, nil }

// expire returns tokens that were not renewed.
func (b *Budget) expire(now time.Time) {
	for key, t := range b.Held {
		if now.Sub(t.Renewed) >= renewed {
			delete(b.Held, key)
		}
	}
}

// Check returns what is wrong with limits, with the field; nil if nothing is.
func (l *Limits) Check() (problems []Problem) {
	if len(l.Shares) == 0 {
		problems = append(problems, Problem{"budget", "has no shares, expected at least one, such as [1%, 10%, 100%]"})
	}
	for i, s := range l.Shares {
		field := fmt.Sprintf("budget[%d]", i)
		if !(s > 0 && s <= 1) {
			problems = append(problems, Problem{field, fmt.Sprintf("is %v, expected more than 0%% and at most 100%%", s)})
		} else if i > 0 && s < l.Shares[i-1] {
			problems = append(problems, Problem{field, fmt.Sprintf("is %v after %v, expected shares that do not fall", s, l.Shares[i-1])})
		}
	}
	if l.Failures < 0 || l.Failures > 1000 {
		problems = append(problems, Problem{"breaker.failures", fmt.Sprintf("is %d, expected 0 to 1000", l.Failures)})
	}
	if l.Failures > 0 && l.Within <= 0 {
		problems = append(problems, Problem{"breaker.within", fmt.Sprintf("is %v, expected a duration such as 10m", l.Within)})
	}
	return problems
}
