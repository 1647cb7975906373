package tier

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/cache"
	"xdsrelay/shard"
)

// phase is how far a feed's search for missing content on other nodes has come.
type phase uint8

const (
	// idle: no content is missing, or the origin answers.
	idle phase = iota
	// patient: content is missing, and the origin may still answer.
	patient
	// asked: the other nodes were asked, and will be asked again after a pause.
	asked
)

// Times of a search. With the time for which restored content is held back (cache.confirm_timeout) added, they
// stay below the two seconds within which each client gets content that any node holds.
const (
	// patience is how long the first attempt to reach the origin may take before other nodes are
	// asked, too.
	patience = 300 * time.Millisecond
	// firstAnswers is how long a round waits for the answers of all nodes before it uses those
	// that have arrived; lastAnswers is when it stops waiting for the rest.
	firstAnswers = 300 * time.Millisecond
	lastAnswers  = time.Second
	// soonest is the shortest time between two rounds of questions. The pause grows from
	// firstRetry to lastRetry while all nodes answer that they have no content.
	soonest    = 200 * time.Millisecond
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// never is longer than any pause: it means until something changes.
	never = 24 * time.Hour
)

// search is the state of a feed's search. It is pure: keepSearching drives it.
type search struct {
	phase phase
	next  time.Time // when to ask next, unless something changes; zero while idle
	began time.Time // when the other nodes were asked last; zero for never
	last  time.Time // when that ended; zero for never
	pause time.Duration
	// settle is when clients stop waiting although not all nodes have answered; zero while they do
	// not wait for that.
	settle time.Time
}

// step returns whether to ask now, and otherwise how long to wait.
func (s *search) step(n cache.Need, l cache.Link, now time.Time) (ask bool, wait time.Duration) {
	if n == cache.NeedNothing || l == cache.LinkUp && n != cache.NeedFirst {
		*s = search{began: s.began, last: s.last, settle: s.settle}
		return false, never
	}
	switch {
	case n == cache.NeedFirst:
		return true, 0
	case s.phase == idle && l == cache.LinkConnecting:
		s.phase, s.next = patient, now.Add(patience)
	case s.phase != asked && l == cache.LinkDown:
		s.phase, s.next = patient, s.last.Add(soonest)
	}
	if s.next.After(now) {
		return false, s.next.Sub(now)
	}
	return true, 0
}

// done records a round of questions that began at a time. complete means that all nodes have
// answered.
func (s *search) done(n cache.Need, complete bool, began, now time.Time) {
	s.phase, s.began, s.last = asked, began, now
	switch {
	case !complete:
		s.pause = firstRetry
	case n == cache.NeedNewer:
		s.pause = never // no node has newer content until something changes
	default:
		s.pause = min(max(2*s.pause, firstRetry), lastRetry)
	}
	s.next = now.Add(s.pause)
}

// reached records whether a round that began at a time has reached all nodes, so that clients need
// not wait any longer. Otherwise they wait a little for those that may be about to be reached.
func (s *search) reached(all bool, began time.Time) {
	switch {
	case all:
		s.settle = time.Time{}
	case s.settle.IsZero():
		s.settle = began.Add(firstRetry)
	}
}

// compares forgets how far the search has come before clients began to wait for it: the process slept
// since the last round began, so other nodes may have newer content by now.
func (s *search) compares(since time.Time) {
	if !s.began.Before(since) {
		return
	}
	s.settle = time.Time{}
	if s.phase == asked {
		s.next, s.pause = s.last.Add(soonest), 0
	}
}

// settles reports whether clients have waited long enough, and otherwise how long they wait still.
func (s *search) settles(now time.Time) (yes bool, wait time.Duration) {
	switch {
	case s.settle.IsZero():
		return false, never
	case now.Before(s.settle):
		return false, s.settle.Sub(now)
	}
	s.settle = time.Time{}
	return true, 0
}

// hurry shortens the pause: nodes means that the members have changed, so that answers may differ,
// and n that more content may be missing.
func (s *search) hurry(n cache.Need, nodes bool) {
	if s.phase == asked && (nodes || n == cache.NeedContent) {
		s.next, s.pause = s.last.Add(soonest), 0
	}
}

// reachedAll reports whether all nodes that may have newer content have answered a round of
// questions. silent are the members that have not, and heard is when this node last knew who the
// members are: it knows for a lease. A process that was stopped for longer, and is cut off from
// Redis, may take itself for alone.
func reachedAll(silent []string, heard time.Time, lease time.Duration, now time.Time) bool {
	return len(silent) == 0 && now.Sub(heard) <= lease
}

// searching bounds how many keys other nodes are asked about at the same time.
const searching = 64

// keepSearching asks other nodes for content that a feed lacks, until ctx ends.
func (t *Tier) keepSearching(ctx context.Context, f *cache.Feed) {
	var s search
	timer := time.NewTimer(never)
	defer timer.Stop()
	defer t.noteUnasked(string(f.Key()), nil)
	for ctx.Err() == nil {
		changed := t.cfg.Members.Changed()
		need, link := f.Need()
		now := time.Now()
		s.compares(f.ComparesSince())
		settled, least := s.settles(now)
		if settled {
			f.Compared()
		}
		ask, wait := s.step(need, link, now)
		if ask {
			met, silent := t.askOthers(ctx, f, need)
			s.done(need, len(silent) == 0, now, time.Now())
			t.noteUnasked(string(f.Key()), silent)
			if need != cache.NeedNewer {
				f.Asked(met...)
			}
			if now.Before(f.ComparesSince()) {
				continue // the answers may be from before the process slept
			}
			all := reachedAll(silent, t.cfg.Members.Heard(), t.cfg.Lease, time.Now())
			if s.reached(all, now); all {
				f.Compared()
			}
			continue
		}
		if unasked := t.notAskedBefore(f); len(unasked) > 0 {
			t.meet(ctx, f, unasked)
			wait = min(wait, firstRetry) // some may have been unreachable
		}
		if need == cache.NeedNothing && link == cache.LinkDown {
			f.Compared()
		}
		timer.Reset(min(wait, least))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-f.Needs():
			need, _ = f.Need()
			s.hurry(need, false)
		case <-changed:
			s.hurry(need, true)
		}
	}
}

// notAskedBefore returns the nodes that became members soon after the origin was asked for a key, and
// may hold content that the origin has lost.
func (t *Tier) notAskedBefore(f *cache.Feed) []shard.Member {
	var others []shard.Member
	names := f.Unasked(func() (names []string) {
		others = t.others()
		for _, m := range others {
			names = append(names, m.Name)
		}
		return names
	})
	return slices.DeleteFunc(others, func(m shard.Member) bool { return !slices.Contains(names, m.Name) })
}

// meet asks the nodes of notAskedBefore for what they hold of a key.
func (t *Tier) meet(ctx context.Context, f *cache.Feed, unasked []shard.Member) {
	met, _ := t.askNodes(ctx, f, unasked, false, func(all []cache.Snapshot) bool {
		renewed := f.Group().Renew(all) // for types that the origin has not answered yet
		return f.TakeOver(all) || renewed
	})
	f.Met(met)
}

// others returns the other members that have a peer address.
func (t *Tier) others() []shard.Member {
	return slices.DeleteFunc(slices.Clone(t.cfg.Members.View().Members()), func(m shard.Member) bool { return t.IsSelf(m) || m.Peer == "" })
}

// Unasked returns the nodes that could not be asked for content that a key lacks, and may have it.
func (t *Tier) Unasked(key string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unasked[key]
}

func (t *Tier) noteUnasked(key string, nodes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unasked[key] = nodes; len(nodes) == 0 {
		delete(t.unasked, key)
	}
}

// askOthers asks all other nodes for what they hold of a key, and gives it to the group. If content
// is missing altogether, it reads the last known good state, too. It returns the names of the
// nodes that have answered, and of those that have not.
func (t *Tier) askOthers(ctx context.Context, f *cache.Feed, n cache.Need) (met, silent []string) {
	return t.askNodes(ctx, f, t.others(), n != cache.NeedNewer && t.cfg.Kept != nil, f.Group().Renew) // last known good state is never newer
}

// askNodes is askOthers for some nodes. kept says whether to read the last known good state, too, and
// take gets the content.
func (t *Tier) askNodes(ctx context.Context, f *cache.Feed, members []shard.Member, kept bool, take func([]cache.Snapshot) bool) (met, silent []string) {
	select {
	case t.searches <- struct{}{}:
		defer func() { <-t.searches }()
	case <-ctx.Done():
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	key := string(f.Key())
	path := heldQuestion(key, f.Group().Snapshots())
	type answer struct {
		node string
		held []cache.Snapshot
		err  error
	}
	answers, left := make(chan answer, len(members)+1), len(members)
	if kept {
		left++
		go func() {
			held, _ := t.cfg.Kept(ctx, key) // an error counts as no content: no node is missing
			answers <- answer{held: held}
		}()
	}
	for _, m := range members {
		go func() {
			text, err := t.cfg.Peers.Ask(ctx, m, path)
			a := answer{node: m.Name}
			switch a.err = err; {
			case status.Code(err) == codes.Unimplemented:
				a.err = nil // its release does not know the question, so it has no content for others
			case err == nil:
				if _, a.held, a.err = readHeld(text, key); a.err != nil {
					t.cfg.Logger.Warn("cannot use the state of a key from another node", "key", key, "node", m.Name, "error", a.err)
				}
			}
			answers <- a
		}()
	}
	var all []cache.Snapshot
	soon := time.NewTimer(firstAnswers)
	defer soon.Stop()
	taken := false
	for left > 0 {
		select {
		case a := <-answers:
			left--
			switch {
			case a.node == "": // last known good
			case a.err != nil:
				silent = append(silent, a.node)
			default:
				met = append(met, a.node)
			}
			all = append(all, a.held...)
			continue
		case <-soon.C:
			taken = take(all) || taken
		}
	}
	if taken = take(all) || taken; taken {
		t.cfg.Logger.Info("a key lacked content that other nodes have; serving it unconfirmed until the control plane answers", "key", key)
	}
	return met, silent
}
