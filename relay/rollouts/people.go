package rollouts

import (
	"cmp"
	"slices"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// person is a client that would see a candidate.
type person struct {
	hash   rollout.Hash
	traits Traits
}

// people are the clients that would see a candidate.
type people struct {
	affected map[rollout.Hash]bool
	eligible []person // by hash
	// quarantined is how many would be eligible if they had not been lost.
	quarantined int
}

// peopleOf returns the clients of a key that would see its candidate, of all nodes. Streams of one client
// count once. As long as another node has not said which of its clients would, nobody is eligible.
func (k *key) peopleOf() people {
	p := people{affected: make(map[rollout.Hash]bool)}
	add := func(one Person) {
		if p.affected[one.Hash] {
			return
		}
		p.affected[one.Hash] = true
		switch {
		case !one.Eligible:
		case k.state.Lost.Has(one.Hash):
			p.quarantined++
		default:
			p.eligible = append(p.eligible, person{one.Hash, Traits{Eligible: true, Group: one.Group, Version: one.Version}})
		}
	}
	for _, one := range k.peopleHere(k.candidate, k.hash) {
		add(one)
	}
	if !k.addElsewhere(add) {
		p.eligible, p.quarantined = nil, 0
	}
	slices.SortFunc(p.eligible, func(a, b person) int { return cmp.Compare(a.hash, b.hash) })
	return p
}

// peopleHere returns the clients of this node that would see a candidate, each once.
func (k *key) peopleHere(candidate *cache.Candidate, hash func(fanout.Canary) rollout.Hash) (all []Person) {
	seen := make(map[rollout.Hash]bool)
	for _, a := range k.c.cfg.Clients.Affected(k.group, candidate) {
		h := hash(a.Canary)
		if seen[h] {
			continue
		}
		seen[h] = true
		traits := Traits{Eligible: true}
		if k.traits != nil {
			traits = k.traits(&a)
		}
		all = append(all, Person{h, traits.Eligible, traits.Group, traits.Version})
	}
	return all
}

// scouts are one client for each software version, at most so many.
func (p *people) scouts(most int) (scouts, control rollout.Roster) {
	var versions rollout.Versions
	for _, one := range p.eligible {
		versions.Add(one.traits.Version, one.hash)
	}
	var canaries, others []rollout.Hash
	for _, v := range versions.Choose(most) {
		canaries = append(canaries, v.First)
	}
	for _, one := range p.eligible {
		if len(others) < len(canaries) && !slices.Contains(canaries, one.hash) {
			others = append(others, one.hash)
		}
	}
	return rollout.RosterOf(canaries...), rollout.RosterOf(others...)
}

// choose returns the canaries of a step, at most most, and its control group. had are the canaries so far;
// refill says that they have all left.
func (p *people) choose(most int, had, lost *rollout.Roster, refill bool) (canaries, control rollout.Roster) {
	var all rollout.Population
	for _, one := range p.eligible {
		all.Add(one.traits.Group, one.hash)
	}
	plan := all.Plan(most, len(had.Hashes))
	var members []rollout.Member
	for _, one := range p.eligible {
		if m, wanted := plan.Wants(one.traits.Group, one.hash); wanted {
			members = append(members, m)
		}
	}
	if refill {
		return plan.Refilled(members, lost)
	}
	return plan.Choose(members, had, lost)
}

// hash is that of a client of the key.
func (k *key) hash(c fanout.Canary) rollout.Hash {
	return rollout.HashOf(k.salt, string(k.group.Key), c.ID, c.Identity)
}
