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
	sees   uint64 // see people.types
}

// people are the clients that would see a candidate.
type people struct {
	affected map[rollout.Hash]bool
	eligible []person // by hash
	// quarantined is how many would be eligible if they had not been lost.
	quarantined int
	// at is where those in eligible are, as long as clients are added.
	at map[rollout.Hash]int
	// types are the URLs of the types in which any of them sees something: bits of what a person sees.
	types []string
}

// add adds a client, which may be added again with other types. lost are those that are quarantined.
func (p *people) add(one Person, lost *rollout.Roster) {
	if p.affected == nil {
		p.affected, p.at = make(map[rollout.Hash]bool), make(map[rollout.Hash]int)
	}
	if p.affected[one.Hash] {
		if i, is := p.at[one.Hash]; is {
			p.eligible[i].sees |= p.bits(one.Types)
		}
		return
	}
	p.affected[one.Hash] = true
	switch {
	case !one.Eligible:
	case lost.Has(one.Hash):
		p.quarantined++
	default:
		p.at[one.Hash] = len(p.eligible)
		p.eligible = append(p.eligible, person{one.Hash, Traits{Eligible: true, Group: one.Group, Version: one.Version}, p.bits(one.Types)})
	}
}

// bits returns the bits of types. More types than there are bits are not looked at.
func (p *people) bits(types []string) (bits uint64) {
	for _, url := range types {
		i := slices.Index(p.types, url)
		if i < 0 && len(p.types) < 64 {
			i = len(p.types)
			p.types = append(p.types, url)
		}
		if i >= 0 {
			bits |= 1 << i
		}
	}
	return bits
}

// sort puts those that may be canaries in the order of their hashes. All have been added.
func (p *people) sort() {
	p.at = nil
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
	return personsOf(k.c.cfg.Clients.Affected(k.group, candidate), hash, k.rule.traits)
}

// affectedHere returns which clients of this node would see something of a candidate.
func (k *key) affectedHere(candidate *cache.Candidate, hash func(fanout.Canary) rollout.Hash) map[rollout.Hash]bool {
	all := make(map[rollout.Hash]bool)
	for _, p := range k.peopleHere(candidate, hash) {
		all[p.Hash] = true
	}
	return all
}

// personsOf returns clients, each once, with the types of all its streams. Without traits all of them may be
// canaries.
func personsOf(clients []fanout.Affected, hash func(fanout.Canary) rollout.Hash, traits func(*fanout.Affected) Traits) (all []Person) {
	seen := make(map[rollout.Hash]int)
	for i := range clients {
		h := hash(clients[i].Canary)
		if at, is := seen[h]; is {
			all[at].addTypes(clients[i].Types)
			continue
		}
		seen[h] = len(all)
		one := Traits{Eligible: true}
		if traits != nil {
			one = traits(&clients[i])
		}
		all = append(all, Person{h, one.Eligible, one.Group, one.Version, clients[i].Types})
	}
	return all
}

// addTypes adds types of another stream of the client.
func (p *Person) addTypes(types []string) {
	for _, url := range types {
		if !slices.Contains(p.Types, url) {
			p.Types = append(p.Types, url)
		}
	}
}

// scouts returns those that may be scouts.
func (p *people) scouts() []rollout.Scout {
	all := make([]rollout.Scout, len(p.eligible))
	for i, one := range p.eligible {
		all[i] = rollout.Scout{Hash: one.hash, Version: one.traits.Version, Sees: one.sees}
	}
	return all
}

// chooseScouts returns the scouts, at most most, and their control group. had are the canaries of a revision that
// goes to scouts again: they keep it, and show nothing new as scouts.
func (p *people) chooseScouts(most int, had *rollout.Roster) (scouts, control rollout.Roster) {
	scouts = *had
	others := slices.DeleteFunc(p.scouts(), func(s rollout.Scout) bool { return had.Has(s.Hash) })
	chosen := rollout.ScoutsAmong(others, most)
	for _, s := range chosen {
		scouts = scouts.With(s.Hash)
	}
	var compared []rollout.Hash
	for _, one := range p.eligible {
		if len(compared) < len(chosen) && !scouts.Has(one.hash) {
			compared = append(compared, one.hash)
		}
	}
	return scouts, rollout.RosterOf(compared...)
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
