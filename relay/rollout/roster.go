package rollout

import (
	"cmp"
	"slices"
)

// MaxExact is how many canaries a roster lists. Above, it has a range of hashes as well.
const MaxExact = 65536

// reserve is the part of the canaries that a range leaves out, as 1/reserve: clients that connect
// later fall into the range, too.
const reserve = 100

// Roster is a set of clients by their hashes: the canaries of a step, or its control group. The zero
// value is empty.
type Roster struct {
	Hashes []Hash // sorted
	// From and Below are a range, for more than [MaxExact] clients. Empty if both are 0.
	From, Below Hash
}

// RosterOf returns the roster of some hashes.
func RosterOf(hashes ...Hash) Roster {
	hashes = slices.Clone(hashes)
	slices.Sort(hashes)
	return Roster{Hashes: slices.Compact(hashes)}
}

// Has reports whether a client is in it.
func (r *Roster) Has(h Hash) bool {
	if r.From <= h && h < r.Below {
		return true
	}
	_, has := slices.BinarySearch(r.Hashes, h)
	return has
}

// IsEmpty reports whether no client can be in it.
func (r *Roster) IsEmpty() bool { return len(r.Hashes) == 0 && r.From >= r.Below }

// With returns the roster with one more client.
func (r *Roster) With(h Hash) Roster {
	if r.Has(h) {
		return *r
	}
	i, _ := slices.BinarySearch(r.Hashes, h)
	return Roster{slices.Insert(slices.Clone(r.Hashes), i, h), r.From, r.Below}
}

// Contains reports whether everything in another roster is in this one.
func (r *Roster) Contains(other *Roster) bool {
	for _, h := range other.Hashes {
		if !r.Has(h) {
			return false
		}
	}
	return other.From >= other.Below || r.From <= other.From && other.Below <= r.Below
}

// PlanGroup is how far into a group a [Plan] reaches.
type PlanGroup struct {
	Name    string
	Rest    bool // it is all groups that are not counted separately
	Clients int
	// Through is the last bucket of which the members are asked for, -1 for none, and First the first.
	First, Through int
}

// Plan is what a step needs of the nodes: the hashes of some clients. Nodes need its groups; the
// rest is for [Plan.Choose].
type Plan struct {
	// Canaries is how many canaries the step may have, with those that the revision had before.
	Canaries int
	Groups   []PlanGroup
	// below is how many clients are in the buckets before those that are asked for, and edge where the
	// control group ends: both for a range only.
	below int
	edge  Hash
	exact bool
}

// Member is a client that a plan asks for. Group is its index in the plan.
type Member struct {
	Group int
	Hash  Hash
}

// Plan returns what is needed to choose k canaries, of which the revision had some before, and as many
// clients for the control group.
func (p *Population) Plan(k, had int) Plan {
	plan := Plan{Canaries: k, exact: k <= MaxExact}
	var counts []*Group
	for g := range p.all() {
		counts = append(counts, g)
		plan.Groups = append(plan.Groups, PlanGroup{Clients: g.Clients, Rest: g == p.Rest, Through: -1})
	}
	names := p.names()
	for i := range names {
		plan.Groups[i].Name = names[i]
	}
	if !plan.exact {
		p.planRange(&plan, had)
		return plan
	}
	for i, quota := range plan.quotas(2 * k) {
		seen := 0
		for b := 0; b < Buckets && seen < quota; b++ {
			seen += int(counts[i].Buckets[b])
			plan.Groups[i].Through = b
		}
	}
	return plan
}

// planRange asks for the bucket in which the range has to end.
func (p *Population) planRange(plan *Plan, had int) {
	k := max(0, plan.Canaries-plan.Canaries/reserve-had)
	seen, boundary := 0, -1
	plan.edge = ^Hash(0)
	for b := range Buckets {
		inBucket := 0
		for g := range p.all() {
			inBucket += int(g.Buckets[b])
		}
		if boundary < 0 && seen+inBucket >= k {
			boundary, plan.below = b, seen
		}
		if seen += inBucket; seen >= 2*k && boundary >= 0 && b < Buckets-1 {
			plan.edge = Hash(b+1) << (64 - bucketBits)
			break
		}
	}
	for i := range plan.Groups {
		plan.Groups[i].First, plan.Groups[i].Through = max(boundary, 0), boundary
	}
}

// quotas returns how many of the first n clients in the order of choice each group has.
func (p *Plan) quotas(n int) []int {
	quotas := make([]int, len(p.Groups))
	for range n {
		best := -1
		for i, g := range p.Groups {
			if quotas[i] < g.Clients && (best < 0 || p.before(rank{i, quotas[i]}, rank{best, quotas[best]}) < 0) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		quotas[best]++
	}
	return quotas
}

// rank is a place in a group, by the order of hashes, from 0.
type rank struct{ group, at int }

// before compares places in the order of choice: one client of each group first, the largest group
// first; then such that each group has the same share.
func (p *Plan) before(a, b rank) int {
	if first := cmp.Compare(min(a.at, 1), min(b.at, 1)); first != 0 {
		return first
	}
	x, y := p.Groups[a.group].Clients, p.Groups[b.group].Clients
	return cmp.Or(cmp.Compare(a.at*y, b.at*x), cmp.Compare(y, x), cmp.Compare(a.group, b.group))
}

// Wants returns the member that a client of a group is, if the plan asks for it.
func (p *Plan) Wants(group string, h Hash) (m Member, wanted bool) {
	i := slices.IndexFunc(p.Groups, func(g PlanGroup) bool { return !g.Rest && g.Name == group })
	if i < 0 { // it has appeared since, or is in the rest
		i = slices.IndexFunc(p.Groups, func(g PlanGroup) bool { return g.Rest })
	}
	if i < 0 || h.bucket() < p.Groups[i].First || h.bucket() > p.Groups[i].Through {
		return Member{}, false
	}
	return Member{i, h}, true
}

// Choose returns the canaries of a step and its control group, of the members that all nodes have
// returned, in any order. had are all that the revision had so far, also those that have left or are
// lost: they stay on the roster, so that together not more than k clients are ever sent the revision,
// and a step contains the one before. Other clients of quarantine are in neither.
func (p *Plan) Choose(members []Member, had, quarantine *Roster) (canaries, control Roster) {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Hash, b.Hash), cmp.Compare(a.Group, b.Group)) })
	members = slices.CompactFunc(members, func(a, b Member) bool { return a.Hash == b.Hash })
	if !p.exact {
		return p.chooseRange(members, had)
	}
	next := make([]int, len(p.Groups))
	ranks := make([]rank, len(members))
	for i, m := range members {
		ranks[i] = rank{m.Group, next[m.Group]}
		next[m.Group]++
	}
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return p.before(ranks[a], ranks[b]) })
	chosen, others := slices.Clone(had.Hashes), []Hash(nil)
	for _, i := range order {
		h := members[i].Hash
		switch {
		case had.Has(h) || quarantine.Has(h):
		case len(chosen) < p.Canaries:
			chosen = append(chosen, h)
		case len(others) < p.Canaries:
			others = append(others, h)
		}
	}
	return RosterOf(chosen...), RosterOf(others...)
}

// chooseRange returns the range of canaries, which ends in the bucket that was asked for, and that
// of the control group behind it.
func (p *Plan) chooseRange(members []Member, had *Roster) (canaries, control Roster) {
	k := p.Canaries - p.Canaries/reserve - len(had.Hashes) - p.below
	end := had.Below
	if 0 <= k && k < len(members) {
		end = max(end, members[k].Hash)
	}
	return Roster{Hashes: had.Hashes, Below: end}, Roster{From: end, Below: p.edge}
}

// Refilled returns a roster for the same step after all its canaries have left: without them, and
// with as many others. It is the only way in which more clients than the share may get a revision.
func (p *Plan) Refilled(members []Member, quarantine *Roster) (canaries, control Roster) {
	return p.Choose(members, &Roster{}, quarantine)
}
