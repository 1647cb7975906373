package rollouts

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/load"
	"xdsrelay/relay/rollout"
)

// provingStep is the number of the final bake.
const provingStep = 1 << 30

// standing is how a client of an arm stands with a candidate.
type standing struct {
	Hash     rollout.Hash    `json:"hash"`
	Control  bool            `json:"control,omitempty"`
	Exposure fanout.Exposure `json:"exposure,omitempty"`
	// Waits is for how long the oldest response with something of the candidate is unanswered; 0 if there
	// is none. Client is the node id then, Type the URL of the response, and Since when it was sent.
	Waits  time.Duration `json:"waits_ns,omitempty"`
	Client string        `json:"client,omitempty"`
	Type   string        `json:"type_url,omitempty"`
	Since  time.Time     `json:"since,omitzero"`
	// Unaffected says that it was sent nothing and would see nothing of the candidate: see
	// setUnaffected.
	Unaffected bool `json:"unaffected,omitempty"`
}

// standings are those of the streams of this node.
func standings(all []fanout.CanaryStatus, hash func(fanout.Canary) rollout.Hash, now time.Time) []standing {
	is := make([]standing, 0, len(all))
	for _, one := range all {
		s := standing{Hash: hash(one.Canary), Control: one.Arm == fanout.ControlArm, Exposure: one.Exposure}
		if !one.Since.IsZero() {
			s.Waits, s.Client, s.Type, s.Since = now.Sub(one.Since), one.ID, one.Type, one.Since
		}
		is = append(is, s)
	}
	return is
}

// setUnaffected finds out which canaries were sent nothing of a revision because they would see nothing of it:
// they need not answer. Those that are about to be sent it do.
func setUnaffected(all []standing, affected func() map[rollout.Hash]bool) {
	var is map[rollout.Hash]bool
	for i := range all {
		if s := &all[i]; s.Exposure == fanout.NotExposed && !s.Control {
			if is == nil {
				is = affected()
			}
			s.Unaffected = !is[s.Hash]
		}
	}
}

// rounds returns the number of the step.
func (a *arms) rounds() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.final {
		return provingStep
	}
	return a.number
}

// shownArms is what other nodes need to show the candidate to their clients. Once the brake is on, there are
// no canaries.
func (a *arms) shownArms() (step int, canaries, control, lost rollout.Roster) {
	lost = a.quarantined()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.braked {
		return a.number, rollout.Roster{}, rollout.Roster{}, lost
	}
	return a.number, a.canaries, a.control, lost
}

// tally is what has happened to the clients of a node in a step.
type tally struct {
	Seen       [2][]rollout.Hash `json:"seen"` // canaries, control group
	Lost       [2][]rollout.Hash `json:"lost"`
	Load       [2]fanout.Load    `json:"load"`
	Accepted   []rollout.Hash    `json:"accepted,omitempty"`
	RejectedBy []string          `json:"rejected_by,omitempty"`
	Trouble    Trouble           `json:"trouble,omitzero"`
}

// tally returns what has happened.
func (a *arms) tally() (t tally) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.seen {
		t.Seen[i], t.Lost[i] = slices.Collect(maps.Keys(a.seen[i])), slices.Collect(maps.Keys(a.lost[i]))
	}
	t.Load = a.load
	t.Accepted, t.RejectedBy = slices.Collect(maps.Keys(a.accepted)), slices.Collect(maps.Keys(a.rejectedBy))
	t.Trouble = a.trouble.clone()
	t.Trouble.Unanswered = nil // the standings have them
	return t
}

// merge adds what has happened to clients of another node, but for the load. It may be added again.
func (a *arms) merge(t *tally) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range t.Seen {
		for _, h := range t.Seen[i] {
			note(a.seen[i], h)
		}
		for _, h := range t.Lost[i] {
			note(a.lost[i], h)
			if i == 0 && !a.final {
				note(a.quarantine, h)
			}
		}
	}
	for _, h := range t.Accepted {
		note(a.accepted, h)
	}
	for _, by := range t.RejectedBy {
		if len(a.rejectedBy) < maxNoted {
			a.rejectedBy[by] = true
		}
	}
	for _, r := range t.Trouble.Rejections {
		if a.firstRejection.IsZero() {
			a.firstRejection = r.At
		}
		same := func(o Rejection) bool { return o.Client == r.Client && o.Type == r.Type && o.At.Equal(r.At) }
		if len(a.trouble.Rejections) < maxTrouble && !slices.ContainsFunc(a.trouble.Rejections, same) {
			a.trouble.Rejections = append(a.trouble.Rejections, r)
		}
	}
	for _, u := range t.Trouble.Lost {
		same := func(o Unwell) bool { return o.Client == u.Client && o.At.Equal(u.At) }
		if len(a.trouble.Lost) < maxTrouble && !slices.ContainsFunc(a.trouble.Lost, same) {
			a.trouble.Lost = append(a.trouble.Lost, u)
		}
	}
	if a.limit > 0 && len(a.rejectedBy) >= a.limit {
		a.braked = true
	}
}

// addLoads adds what clients of other nodes have reported of their requests.
func (k *key) addLoads(c *rollout.Counts) {
	for _, e := range k.elsewhere {
		if e.round != k.arms.rounds() {
			continue
		}
		for i, arm := range []*rollout.Arm{&c.Canary, &c.Control} {
			arm.Requests, arm.Errors = load.Add(arm.Requests, e.load[i].Requests), load.Add(arm.Errors, e.load[i].Errors)
		}
	}
}
