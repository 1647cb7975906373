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

// add adds a client, once. lost are those that are quarantined.
func (p *people) add(one Person, lost *rollout.Roster) {
	if p.affected == nil {
		p.affected = make(map[rollout.Hash]bool)
	}
	if p.affected[one.Hash] {
		return
	}
	p.affected[one.Hash] = true
	switch {
	case !one.Eligible:
	case lost.Has(one.Hash):
		p.quarantined++
	default:
		p.eligible = append(p.eligible, person{one.Hash, Traits{Eligible: true, Group: one.Group, Version: one.Version}})
	}
}

// sort puts those that may be canaries in the order of their hashes.
func (p *people) sort() {
	slices.SortFunc(p.eligible, func(a, b person) int { return cmp.Compare(a.hash, b.hash) })
}

// peopleOf returns the clients of a key that would see its candidate, of all nodes. Streams of one client
// count once. As long as another node has not said which of its clients would, nobody is eligible.
func (k *key) peopleOf() (p people) {
	add := func(one Person) { p.add(one, &k.state.Lost) }
	for _, one := range k.peopleHere(k.candidate, k.hash) {
		add(one)
	}
	if !k.addElsewhere(add) {
		p.eligible, p.quarantined = nil, 0
	}
	p.sort()
	return p
}

// peopleHere returns the clients of this node that would see a candidate, each once.
func (k *key) peopleHere(candidate *cache.Candidate, hash func(fanout.Canary) rollout.Hash) []Person {
	return personsOf(k.c.cfg.Clients.Affected(k.group, candidate), hash, k.traits)
}

// personsOf returns clients, each once. Without traits all of them may be canaries.
func personsOf(clients []fanout.Affected, hash func(fanout.Canary) rollout.Hash, traits func(*fanout.Affected) Traits) (all []Person) {
	seen := make(map[rollout.Hash]bool)
	for i := range clients {
		h := hash(clients[i].Canary)
		if seen[h] {
			continue
		}
		seen[h] = true
		one := Traits{Eligible: true}
		if traits != nil {
			one = traits(&clients[i])
		}
		all = append(all, Person{h, one.Eligible, one.Group, one.Version})
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
