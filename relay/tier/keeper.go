package tier

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/events"
	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/pause"
	"xdsrelay/shard"
)

// State is the source from which this node gets a key.
type State string

// The states of a key.
const (
	Owner    State = "owner"     // from the origin, as its owner
	Follower State = "follower"  // from the owner
	Alone    State = "fallback"  // from the origin, because the owner cannot be asked
	ForPeers State = "for_peers" // from the origin, because other nodes consider this one the owner
)

const (
	// stay is how long a node stays in ForPeers after its peers have left: two nodes that follow
	// each other would otherwise switch roles at the same moment.
	stay = time.Second
	// freshPause is the shortest time between two questions whether the owner's content is
	// current.
	freshPause = 250 * time.Millisecond
	// settleTime is how long after a change the origin's message to another node may arrive later, and
	// longestSettle bounds the wait for such a time without changes.
	settleTime    = 3 * time.Second
	longestSettle = 30 * time.Second
	// longestPause bounds, before jitter, the pause before an owner that refused is asked again.
	longestPause = 30 * time.Second
)

// ownerPauses returns the pauses before an owner that refused is asked again, the first of a given
// length.
func ownerPauses(first time.Duration) backoff.ExponentialBackOff {
	return backoff.ExponentialBackOff{InitialInterval: first, Multiplier: 2, RandomizationFactor: 0.2, MaxInterval: longestPause}
}

// keeper decides where one upstream stream of a key goes, and keeps it there. The stream is a leg of
// the key or its load reports.
type keeper struct {
	// Fixed after construction.
	tier   *Tier
	key    string
	leg    string
	peers  func() (n int, changed <-chan struct{}) // the nodes that this one serves with the key
	origin func(ctx context.Context)
	follow func(ctx context.Context, k *keeper, p *peer)
	feed   *cache.Feed   // the content; nil for load reports
	news   chan struct{} // signals that the stream to the owner was opened or ended

	// Owned by run.
	owner   shard.Member               // the one to follow; the zero Member if there is none
	peer    *peer                      // the connection to it; nil if there is none to follow
	reached <-chan struct{}            // closed when the owner becomes reachable or unreachable
	source  *job                       // keeps the key up to date; nil before the first time
	hooks   hooks                      // of an Owner, or of a node that is Alone
	settles time.Time                  // since when this node could follow the owner; see settling
	retryAt time.Time                  // when the owner may be asked again
	pauses  backoff.ExponentialBackOff // before that
	staysTo time.Time                  // when ForPeers ends; see stay
	ownedBy string                     // the last owner that is known; empty before the first

	mu lockorder.Mutex[lockorder.Keeper]
	// Guarded by mu.
	shown place // where the key comes from
	// broken is why there is no stream to the owner, and brokenSince since when. Both are zero
	// while there is one, or before the first attempt.
	broken      error
	brokenSince time.Time
}

// place is where a key comes from, and since when.
type place struct {
	state State
	owner string // the node to follow, even if it cannot be reached
	since time.Time
}

// fromOrigin reports whether a key comes from the origin.
func (s State) fromOrigin() bool { return s == Owner || s == Alone || s == ForPeers }

// job is a goroutine that another one ends and waits for.
type job struct {
	end  context.CancelFunc
	done chan struct{}
}

func startJob(ctx context.Context, do func(context.Context)) *job {
	ctx, cancel := context.WithCancel(ctx)
	j := &job{end: cancel, done: make(chan struct{})}
	go func() {
		defer close(j.done)
		do(ctx)
	}()
	return j
}

// stop ends j, which may be nil, and waits for it.
func (j *job) stop() {
	if j != nil {
		j.end()
		j.wait()
	}
}

// wait waits for the end of j, which may be nil.
func (j *job) wait() {
	if j != nil {
		<-j.done
	}
}

// run keeps the key until ctx ends.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer func() {
		k.leave()
		k.source.stop()
		k.hooks.stop()
	}()
	for ctx.Err() == nil {
		// Get the channels that report changes before the state, so that no change is missed.
		changed := k.tier.cfg.Members.Changed()
		n, peers := k.peers()
		state, at := k.where(ctx, k.tier.cfg.Members.View(), n, time.Now())
		k.become(ctx, state)
		wait := time.Hour
		for _, at := range []time.Time{at, k.hooks.next(time.Now())} {
			if !at.IsZero() {
				wait = min(wait, time.Until(at))
			}
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-peers:
		case <-k.reached:
		case <-k.news:
		case <-timer.C:
		}
	}
}

// where decides where the key has to come from, and when to decide again; zero means only when
// something changes. n is how many other nodes consider this one the owner.
func (k *keeper) where(ctx context.Context, view *shard.View, n int, now time.Time) (s State, again time.Time) {
	owner, ok := view.Owner(k.key)
	if !ok || k.tier.IsSelf(owner) {
		k.turnTo(shard.Member{})
		if !ok {
			return Alone, again // there are no members
		}
		return Owner, again
	}
	k.reached = nil
	switch was := k.state(); {
	case n > 0:
		k.staysTo = now.Add(stay + rand.N(stay))
		return ForPeers, again
	case was == ForPeers && k.staysTo.After(now):
		return ForPeers, k.staysTo
	}
	k.turnTo(owner)
	return k.reach(ctx, now)
}

// reach decides whether this node can follow the owner.
func (k *keeper) reach(ctx context.Context, now time.Time) (s State, again time.Time) {
	var lost time.Time
	lost, k.reached = k.peer.lost()
	k.mu.Lock()
	broken, since, was := k.broken, k.brokenSince, k.shown
	k.mu.Unlock()
	if !was.state.fromOrigin() || !lost.IsZero() {
		k.settles = time.Time{}
	}
	timeout := k.tier.cfg.OwnerTimeout
	switch {
	case was.state.fromOrigin() && !lost.IsZero():
		return Alone, again // until the owner answers
	case was.state == Alone && k.retryAt.After(now):
		return Alone, k.retryAt
	case was.state.fromOrigin():
		if until := k.settling(now); until.After(now) {
			return Alone, until
		}
		if !k.ownerIsFresh(ctx) {
			return Alone, now.Add(freshPause + rand.N(freshPause))
		}
		return Follower, again
	case !lost.IsZero() && lost.Add(timeout).After(now):
		return Follower, lost.Add(timeout)
	case !lost.IsZero():
		return Alone, again
	case broken == nil:
		return Follower, again
	case status.Code(broken) == codes.Unavailable && since.Add(timeout).After(now):
		return Follower, since.Add(timeout) // the stream is being opened again
	}
	// The owner answers and does not serve the key. Only another attempt shows when it does.
	if now.Sub(was.since) > longestPause {
		k.pauses.Reset()
	}
	k.retryAt = now.Add(k.pauses.NextBackOff())
	return Alone, k.retryAt
}

// settling returns until when this node, which could follow the owner, stays with the origin, since the
// origin has just changed the key, and its message to the owner may still be on the way; a time that has
// passed if it need not. The tier head does not prevent that the node is sent back: nodes that are Alone
// advance it a moment later, and those that are ForPeers do not.
func (k *keeper) settling(now time.Time) (until time.Time) {
	if k.settles.IsZero() {
		k.settles = now
	}
	if k.feed == nil {
		return until
	}
	until = k.feed.LastChange().Add(settleTime)
	if latest := k.settles.Add(longestSettle); until.After(latest) {
		return latest // the key changes all the time
	}
	return until
}

// turnTo makes owner the node to follow; the zero Member means none.
func (k *keeper) turnTo(owner shard.Member) {
	if k.owner.Name == owner.Name && k.owner.Peer == owner.Peer && k.owner.Incarnation == owner.Incarnation {
		return
	}
	k.leave()
	k.owner, k.pauses, k.retryAt = owner, ownerPauses(k.tier.cfg.OwnerTimeout), time.Time{}
	if owner.Name != "" {
		k.peer = k.tier.cfg.Peers.use(owner)
	}
	k.report(nil)
}

// leave releases the connection to the owner.
func (k *keeper) leave() {
	if k.peer == nil {
		return
	}
	if k.state() == Follower { // the source uses the connection
		k.source.stop()
		k.source = nil
	}
	k.peer.leave()
	k.peer, k.reached = nil, nil
}

// report records whether there is a stream to the owner: err is why not, nil if there is one. It
// may be called on any goroutine and does not block.
func (k *keeper) report(err error) {
	k.mu.Lock()
	switch {
	case err == nil:
		k.brokenSince = time.Time{}
	case k.broken == nil:
		k.brokenSince = time.Now()
	}
	k.broken = err
	k.mu.Unlock()
	select {
	case k.news <- struct{}{}:
	default:
	}
}

func (k *keeper) state() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown.state
}

// become moves the key to a state. A stream to the origin stays open between two states that use
// the origin.
func (k *keeper) become(ctx context.Context, s State) {
	was := k.state()
	if s == was && k.source != nil {
		return
	}
	k.hooks.end()
	if k.source == nil || s.fromOrigin() != was.fromOrigin() {
		k.source.stop()
		k.source = nil
		if k.feed != nil {
			// Before any wait: other nodes may follow this one already.
			if s.fromOrigin() {
				k.feed.Doubt()
			}
			k.feed.Borrow(!s.fromOrigin())
		}
		if was != "" && !pause.For(ctx, k.tier.spread()) {
			return
		}
		k.report(nil)
		k.source = startJob(ctx, k.fill(s, was))
	}
	k.show(s)
	k.hooks.begin(s)
}

// fill returns the function that keeps the key up to date in a state, after another one.
func (k *keeper) fill(s, was State) func(context.Context) {
	if s.fromOrigin() {
		return k.origin
	}
	p := k.peer
	return func(ctx context.Context) {
		if was == Follower && k.isUnmet(ctx, p) {
			k.report(errUnmet)
			return
		}
		k.follow(ctx, k, p)
	}
}

// noteOwner logs that the key moved to another owner. Many keys do so at a time, and become one
// event.
func (k *keeper) noteOwner(s State) {
	now := k.owner.Name
	if s == Owner {
		now = k.tier.Self().Name
	}
	if now == "" || s == ForPeers { // other nodes disagree on the owner
		return
	}
	if k.ownedBy != "" && k.ownedBy != now {
		k.tier.cfg.Logger.Log(context.Background(), events.LevelQuiet, "a key moved to another owner", events.Key, events.OwnerMoved, "key", k.key, "from", k.ownedBy, "to", now)
	}
	k.ownedBy = now
}

func (k *keeper) show(s State) {
	k.noteOwner(s)
	k.mu.Lock()
	k.shown = place{state: s, owner: k.owner.Name, since: time.Now()}
	k.mu.Unlock()
}

// Bounds of the spread.
const (
	spreadPerKey = time.Millisecond
	minSpread    = 10 * time.Millisecond
	maxSpread    = time.Second
)

// spread returns a random delay, so that the streams of many keys do not move at the same moment
// (C13).
func (t *Tier) spread() time.Duration {
	return rand.N(min(max(time.Duration(t.keys.Load())*spreadPerKey, minSpread), maxSpread))
}
