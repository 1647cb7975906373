package rollouts

import (
	"context"
	"slices"
	"sync"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/pause"
	"xdsrelay/relay/rollout"
)

// Exchange is what nodes say to each other about rollouts. Each message is how something is, not how it has
// changed: one that is lost is made good by the next.
type Exchange struct {
	// From is the name of the sender.
	From string `json:"from"`
	// Shown are keys about which the sender decides, and Reports are about keys of the receiver.
	Shown   []Shown  `json:"shown,omitempty"`
	Reports []Report `json:"reports,omitempty"`
}

// As is what the clients of a key are shown.
type As uint8

const (
	// AsTables: what the tables have. The zero value.
	AsTables As = iota
	// AsCandidate: canaries are shown the candidate, all others what the tables have.
	AsCandidate
	// AsPromoted: what the tables have. All clients are observed, for the final bake.
	AsPromoted
)

// Shown is what the clients of a key are to be shown.
type Shown struct {
	Key string `json:"key"`
	// Epoch and Seq order what is said about a key, by all nodes that have decided about it.
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
	As    As     `json:"as"`
	// Revision is the candidate, or what the tables have: with AsTables, a candidate of another revision was
	// taken back.
	Revision string `json:"revision,omitempty"`
	// Overlay is the candidate. It is left out if the receiver has it.
	Overlay []cache.SharedView `json:"overlay,omitempty"`
	// Salt is that of hashes. NACKs is how many of them end the rollout; 0 for none.
	Salt  string `json:"salt,omitempty"`
	NACKs int    `json:"nacks,omitempty"`
	// Round is the number of the step. Canaries and Control are the arms of this one,
	// and Lost the canaries that are quarantined.
	Round    int            `json:"round,omitempty"`
	Canaries rollout.Roster `json:"canaries,omitzero"`
	Control  rollout.Roster `json:"control,omitzero"`
	Lost     rollout.Roster `json:"lost,omitzero"`
	// People asks for the clients that would see the candidate, and IDs for those of the arms.
	People bool `json:"people,omitempty"`
	IDs    bool `json:"ids,omitempty"`
}

// Report is what a node says about its clients of a key.
type Report struct {
	Key string `json:"key"`
	// Epoch and Seq are those of the newest [Shown] that it carries out.
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
	// Has is the revision of the overlay that it has, and Round that of the other fields.
	Has   string `json:"has,omitempty"`
	Round int    `json:"round,omitempty"`
	// People are those that were asked for; nil if they were not.
	People    []Person   `json:"people,omitempty"`
	Counted   bool       `json:"counted,omitempty"` // People are complete
	Standings []standing `json:"standings,omitempty"`
	Tally     tally      `json:"tally,omitzero"`
	// IDs are node ids of canaries and of the control group, for checks. There may be more of both.
	IDs [2][]string `json:"ids,omitzero"`
}

// Person is a client that would see a candidate, once for each client id.
type Person struct {
	Hash     rollout.Hash `json:"hash"`
	Eligible bool         `json:"eligible,omitempty"`
	Group    string       `json:"group,omitempty"`
	Version  string       `json:"version,omitempty"`
	// Types are the URLs of the types in which it would see something.
	Types []string `json:"types,omitempty"`
}

// elsewhere is what another node has reported of a key.
type elsewhere struct {
	epoch, seq uint64
	has        string
	round      int
	load       [2]fanout.Load
	ids        [2][]string
	// sent and sentEpoch are what it was sent last, at the time asked.
	sent, sentEpoch uint64
	asked           time.Time
	people          []Person
	counted         rollout.Digest // the revision for which people are complete
	countedAt       time.Time
	standings       []standing
	// heard is when it has reported last; zero for never. away says that it does not follow this node: its
	// clients may still have the revision.
	heard time.Time
	away  bool
}

// mayHaveCanaries reports whether clients of the node may have a candidate.
func (e *elsewhere) mayHaveCanaries(c *cache.Candidate) bool {
	return e.heard.IsZero() || c != nil && e.has == c.Revision
}

const (
	// exchangeTimeout bounds how long another node may take to answer.
	exchangeTimeout = 2 * time.Second
	// patience is how long a step waits for nodes that do not say which of their clients are affected.
	patience = 5 * time.Second
	// provingLook is how often other nodes are asked during a final bake without a reason.
	provingLook = 5 * time.Second
)

// exchange talks to the other nodes until ctx ends. Each is asked for one thing at a time.
func (c *Controller) exchange(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	timer := time.NewTimer(pause.Next(look))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.tier.toExchange:
		}
		timer.Reset(pause.Next(look))
		for node, m := range c.outgoing(time.Now()) {
			sending.Go(func() { c.send(ctx, node, m) })
		}
	}
}

// outgoing returns what is to be sent now, by node, and marks these nodes as busy.
func (c *Controller) outgoing(now time.Time) map[string]*Exchange {
	c.mu.Lock()
	none := len(c.keys)+len(c.resting) == 0
	c.mu.Unlock()
	if none {
		return nil // an idle node need not look at all streams of other nodes each second
	}
	followers, members := c.cfg.Tier.Followers(), c.cfg.Tier.Members()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]*Exchange)
	to := func(node string) *Exchange {
		if all[node] == nil {
			all[node] = &Exchange{From: c.cfg.Tier.Node}
			c.tier.busy[node] = true
		}
		return all[node]
	}
	c.wakeFollowedLocked(followers)
	for _, k := range c.keys {
		switch k.role {
		case Deciding:
			if k.forgetOthers(followers[k.name()], members); k.isUndecided() {
				continue
			}
			for node := range k.elsewhere {
				if (all[node] != nil || !c.tier.busy[node]) && k.isDueAt(node, now) {
					e := k.elsewhere[node]
					e.asked, e.sent, e.sentEpoch = now, k.doc, k.epoch
					m := to(node)
					m.Shown = append(m.Shown, k.shownTo(node))
				}
			}
		case Following:
			if f := k.follows; f != nil && f.news && (all[f.from] != nil || !c.tier.busy[f.from]) {
				f.news = false
				m := to(f.from)
				m.Reports = append(m.Reports, k.report(now))
			}
		}
	}
	return all
}

// send sends a message, and takes the answer.
func (c *Controller) send(ctx context.Context, node string, m *Exchange) {
	ctx, end := context.WithTimeout(ctx, exchangeTimeout)
	defer end()
	answer, err := c.cfg.Tier.Exchange(ctx, node, *m)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tier.busy, node)
	now := time.Now()
	if err != nil {
		for _, r := range m.Reports {
			if k := c.keyNamed(r.Key); k != nil && k.follows != nil {
				k.follows.news = true // again with the next round
			}
		}
		return
	}
	c.take(node, answer.Reports, now)
	wake(c.tier.toExchange) // something else may have happened meanwhile
}

// Received answers a message of another node.
func (c *Controller) Received(m Exchange) (answer Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	answer.From = c.cfg.Tier.Node
	for _, s := range m.Shown {
		k := c.keyNamed(s.Key)
		switch {
		case k == nil: // no client, so nobody is shown anything
			answer.Reports = append(answer.Reports, Report{Key: s.Key, Epoch: s.Epoch, Seq: s.Seq, Counted: s.People, Round: s.Round})
			continue
		case k.role == Deciding && s.Epoch > k.epoch:
			k.becomes(superseded)
			continue
		case k.role != Following:
			continue // what is newer counts, and that is known from the ledger
		}
		k.follow(m.From, s, now)
		answer.Reports = append(answer.Reports, k.report(now))
	}
	c.take(m.From, m.Reports, now)
	c.inbox.signal() // something may be due earlier
	return answer
}

// take records the reports of a node.
func (c *Controller) take(node string, reports []Report, now time.Time) {
	for _, r := range reports {
		k := c.keyNamed(r.Key)
		switch {
		case k == nil || k.role != Deciding || k.elsewhere[node] == nil || r.Epoch < k.epoch:
			continue
		case r.Epoch > k.epoch: // another node has decided since, as while this one was stopped
			k.becomes(superseded)
			continue
		}
		e := k.elsewhere[node]
		e.epoch, e.seq, e.has, e.heard = r.Epoch, r.Seq, r.Has, now
		if r.Counted && k.candidate != nil && (r.Has == k.candidate.Revision || r.Has == "") {
			e.people, e.counted, e.countedAt = r.People, k.state.Run.Revision, now
		}
		if k.arms != nil && r.Round == k.arms.rounds() {
			e.standings, e.round, e.load = r.Standings, r.Round, r.Tally.Load
			e.ids = [2][]string{firstOf(r.IDs[0]), firstOf(r.IDs[1])}
			k.arms.merge(&r.Tally)
		}
		c.inbox.touch(k.group)
	}
}

// forgetOthers forgets the nodes that do not follow any more. While a revision is on its way, a member of the
// tier whose clients may have it counts until it says that they have not: it may only be cut off, and no other
// client may get the revision in their place.
func (k *key) forgetOthers(followers, members []string) {
	for node, e := range k.elsewhere {
		if e.away = !slices.Contains(followers, node); !e.away {
			continue
		}
		if !k.state.IsUnderWay() || !slices.Contains(members, node) || !e.mayHaveCanaries(k.candidate) {
			delete(k.elsewhere, node)
		}
	}
	for _, node := range followers {
		k.meets(node)
	}
}

// meets begins to send a node what is decided.
func (k *key) meets(node string) {
	if k.elsewhere == nil {
		k.elsewhere = make(map[string]*elsewhere)
	}
	if k.elsewhere[node] == nil {
		k.elsewhere[node] = &elsewhere{}
	}
}

// isUndecided reports whether other nodes are sent nothing yet: the record of a promotion is being written,
// or this node has taken over the key and does not know the revision that is on its way.
func (k *key) isUndecided() bool {
	return k.next == thePromotion || k.next == byOrder || k.state.IsUnderWay() && k.candidate == nil
}

// isDueAt reports whether a node has to be sent something, or asked.
func (k *key) isDueAt(node string, now time.Time) bool {
	e := k.elsewhere[node]
	since := now.Sub(e.asked)
	switch {
	case e.sent != k.doc || e.sentEpoch != k.epoch:
		return true
	case e.epoch != k.epoch || e.seq != k.doc:
		return since >= look
	case k.state.Phase == rollout.Proving:
		return since >= provingLook
	}
	return k.state.IsUnderWay() && since >= look
}

// shownTo is what a node is sent.
func (k *key) shownTo(node string) Shown {
	s := Shown{Key: k.name(), Epoch: k.epoch, Seq: k.doc, Salt: k.salt}
	switch {
	case k.candidate != nil && k.state.IsUnderWay():
		s.As, s.Revision, s.NACKs = AsCandidate, k.candidate.Revision, k.state.Run.Policy.FailIf.NACKs
		if k.elsewhere[node].has != s.Revision {
			if k.shared == nil {
				k.shared = k.overlay.Share()
			}
			s.Overlay = k.shared
		}
		s.Round, s.Canaries, s.Control, s.Lost = k.arms.shownArms()
		s.IDs = len(k.state.Run.Policy.Checks) > 0
		s.People = k.elsewhere[node].counted != k.state.Run.Revision || k.state.Need != rollout.Bake || k.counts.Canary.Present == 0 || !time.Now().Before(k.countsFrom())
	case k.state.Phase == rollout.Proving:
		s.As, s.Revision, s.Round = AsPromoted, k.state.Stable.String(), k.arms.rounds()
		s.IDs = len(k.state.Run.Policy.Checks) > 0
	default:
		s.Revision = k.state.Stable.String()
	}
	return s
}

// awaitsReports reports whether another node has not said yet how its clients take the step, and had not
// enough time to; or does not follow any more, and is silent.
func (k *key) awaitsReports(now time.Time) bool {
	isNew := now.Sub(k.state.Run.Stepped) < patience
	for _, e := range k.elsewhere {
		switch {
		case e.away && now.Sub(e.heard) >= patience:
			return true
		case isNew && (e.seq < k.stepDoc || e.round != k.arms.rounds()):
			return true
		}
	}
	return false
}

// countsFrom is from when on the clients that are affected at the end of the bake are counted.
func (k *key) countsFrom() time.Time { return k.state.Run.BakeEnds.Add(-2 * look) }

// awaitsPeople reports whether another node has not said yet which of its clients are affected at the end of the
// bake, and had not enough time to.
func (k *key) awaitsPeople(now time.Time) bool {
	if now.Sub(k.state.Run.BakeEnds) >= patience {
		return false
	}
	for _, e := range k.elsewhere {
		if !e.away && e.countedAt.Before(k.countsFrom()) {
			return true
		}
	}
	return false
}

// standingsElsewhere are those of clients of other nodes.
func (k *key) standingsElsewhere() (all []standing) {
	for _, e := range k.elsewhere {
		if e.round == k.arms.rounds() {
			all = append(all, e.standings...)
		}
	}
	return all
}

// addElsewhere adds the clients of other nodes. It reports whether all of them have said which they are, or
// had enough time to.
func (k *key) addElsewhere(add func(Person)) (complete bool) {
	if k.c.cfg.Tier == nil {
		return true
	}
	complete = true
	for _, e := range k.elsewhere {
		if e.counted != k.state.Run.Revision {
			complete = false
			continue
		}
		for _, p := range e.people {
			add(p)
		}
	}
	return complete || time.Since(k.cutAt) >= patience
}
