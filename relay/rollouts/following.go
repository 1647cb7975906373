package rollouts

import (
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// following is what the node that decides has said.
type following struct {
	from string
	m    Shown // without the overlay
	at   time.Time
	// received is the overlay of a revision, with what it is made into.
	revision  string
	received  *cache.Received
	candidate *cache.Candidate
	arms      *arms
	round     int  // of arms
	shows     As   // what clients are shown now; AsTables also where that is not known
	news      bool // a client has done something of which the other node does not know
}

// settleTime bounds how long canaries keep the candidate after its promotion, until the tables have its
// content.
const settleTime = 10 * time.Second

// follow carries out what the node that decides says, unless something newer is known.
func (k *key) follow(from string, m Shown, now time.Time) {
	f := k.follows
	if f == nil {
		f = &following{}
		k.follows = f
	}
	if m.Epoch < f.m.Epoch || m.Epoch == f.m.Epoch && m.Seq < f.m.Seq {
		return
	}
	overlay := m.Overlay
	m.Overlay = nil
	is := f.from == from && f.m.Epoch == m.Epoch && f.m.Seq == m.Seq
	if !is {
		f.at = now
	}
	was := f.m
	f.from, f.m = from, m
	if m.As == AsCandidate && f.revision != m.Revision && overlay != nil {
		k.receive(overlay)
	} else if is {
		return
	}
	if was.As == AsPromoted && m.As == AsTables && m.Revision == was.Revision {
		k.group.Touch() // it may become last known good now
	}
	k.settle(now)
}

// receive takes the overlay of another revision.
func (k *key) receive(overlay []cache.SharedView) {
	f := k.follows
	r, err := k.group.Receive(overlay)
	if err != nil {
		k.c.cfg.Logger.Error("cannot read a revision from the node that decides: clients of this node keep what they have", "key", k.name(), "node", f.from, "error", err)
		return
	}
	f.revision, f.received, f.candidate = f.m.Revision, r, r.Candidate(f.m.Revision)
	f.arms, f.round = newArms(hashFor(f.m.Salt, k.name()), f.m.NACKs, func() { k.c.inbox.touch(k.group) }), 0
}

// settle shows clients what the node that decides says.
func (k *key) settle(now time.Time) {
	f := k.follows
	k.due = time.Time{}
	if f == nil {
		return
	}
	if f.shows == AsCandidate && f.revision != f.m.Revision { // it was taken back
		k.c.cfg.Clients.Hide(k.group, false)
		f.shows = AsTables
	}
	switch {
	case f.m.As == AsCandidate:
		if f.revision == f.m.Revision {
			k.showFollowed()
		}
		return
	case f.shows == AsCandidate && !f.received.IsPromoted() && now.Sub(f.at) < settleTime:
		k.due = now.Add(look / 10) // the tables follow on another stream
		return
	case f.m.As == AsPromoted && f.shows != AsPromoted:
		if f.shows == AsTables {
			k.c.cfg.Clients.Hide(k.group, false)
		}
		f.arms = newArms(hashFor(f.m.Salt, k.name()), 0, func() { k.c.inbox.touch(k.group) })
		f.arms.finish()
		f.round = f.m.Round
		k.c.cfg.Clients.Watch(k.group, f.m.Revision, k.governedTables(), now, f.arms.notify)
	case f.m.As == AsTables:
		k.c.cfg.Clients.Hide(k.group, f.shows != AsTables)
		f.forget()
	}
	f.shows = f.m.As
}

// forget forgets what clients are shown: they may still be shown something of the time in which this node has
// decided.
func (f *following) forget() {
	f.revision, f.received, f.candidate, f.arms, f.shows = "", nil, nil, nil, AsTables
}

// showFollowed shows canaries the candidate.
func (k *key) showFollowed() {
	f := k.follows
	f.arms.step(f.m.Round, f.m.Canaries, f.m.Control, f.m.Lost)
	f.round = f.m.Round
	if f.m.Canaries.IsEmpty() {
		if f.shows == AsCandidate {
			k.c.cfg.Clients.Hide(k.group, false)
		}
		f.shows = AsTables
		return
	}
	k.c.cfg.Clients.Show(k.group, f.candidate, f.arms.of, f.arms.notify)
	f.shows = AsCandidate
}

// report is what this node says about its clients.
func (k *key) report(now time.Time) Report {
	f := k.follows
	r := Report{Key: k.name(), Epoch: f.m.Epoch, Seq: f.m.Seq, Has: f.revision}
	has := f.m.As == AsCandidate && f.revision == f.m.Revision
	if f.arms == nil || f.m.As == AsCandidate && !has { // what clients have done is about another revision
		return r
	}
	r.Round = f.round
	if has && f.m.People {
		r.People, r.Counted = k.peopleHere(f.candidate, f.arms.hash), true
	}
	all := k.c.cfg.Clients.Canaries(k.group)
	r.Standings = standings(all, f.arms.hash, now)
	if f.m.IDs {
		r.IDs = idsOf(all)
	}
	r.Tally = f.arms.tally()
	if has {
		setUnaffected(r.Standings, func() map[rollout.Hash]bool { return k.affectedHere(f.candidate, f.arms.hash) })
	}
	return r
}

// reports says that the node that decides needs to know what a client has done.
func (t *tierState) reports(k *key) {
	if k.follows != nil {
		k.follows.news = true
		wake(t.toExchange)
	}
}

// hashFor returns how clients of a key are hashed.
func hashFor(salt, key string) func(fanout.Canary) rollout.Hash {
	return func(c fanout.Canary) rollout.Hash { return rollout.HashOf(salt, key, c.ID, c.Identity) }
}

// isUnproven reports whether clients of this node may have what has not passed its final bake.
func (k *key) isUnproven() bool {
	switch k.role {
	case Deciding:
		return k.state.Phase == rollout.Proving
	case Following:
		return k.follows != nil && k.follows.m.As == AsPromoted
	}
	return true // the record is not known yet
}
