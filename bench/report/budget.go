package report

import (
	"fmt"
	"slices"
	"strings"
)

// The targets that reports know: what is measured, and its references.
const (
	RelayTarget  = "relay"
	FloorTarget  = "floor"
	OriginTarget = "origin"
)

// Bound says what a budget is a bound of.
type Bound int

// What a budget bounds.
const (
	AtMost     Bound = iota // the metric itself
	AtMostKeys              // the metric for each key
	TimesFloor              // its ratio to the floor's
	FloorPlus               // what it is above the floor's
	TimesFirst              // its ratio to that of the first case with the same variant
	FirstPlus               // what it is above that of the first case with the same variant
	// TimesParts: its ratio to the sum of its parts: that of the first case with the same
	// variant, and what the floor takes more here than there.
	TimesParts
	TimesSync // its ratio to that of the same case's step "sync", the first sync
	TimesCold // its ratio to that of the same case's step "cold", a return without versions
	// EachStuck: what each stuck client adds to the metric, which is one per
	// client, against the first case with the same variant.
	EachStuck
)

// Budget is what the relay is meant to reach in a scenario.
type Budget struct {
	What     string
	Scenario string
	Step     string
	Metric   string
	Variant  string // "" means each
	Bound    Bound
	Limit    float64
}

// noise is by how much a ratio that should be 1 may be off.
const noise = 1.1

// Budgets returns what the relay is meant to reach. A budget is judged in every
// case of its scenario.
func Budgets() []Budget {
	return []Budget{
		{"CPU per small delta response and ACK", "steady", "one", CPUPerResponse, "delta", TimesFloor, 1.15},
		{"CPU per small delta response and ACK", "clients", "one", CPUPerResponse, "delta", TimesFloor, 1.15},
		{"CPU per 100 KB SotW response and ACK", "large", "one", CPUPerResponse, "sotw", TimesFloor, 1.15},
		{"growth of CPU per response with resources", "resources", "one", CPUPerResponse, "", TimesFirst, noise},
		{"RSS per client after full sync", "sync", "sync", RSSPerClient, "", FloorPlus, 1 << 10},
		{"RSS per client after full sync", "resources", "sync", RSSPerClient, "", FloorPlus, 1 << 10},
		{"RSS per client at rest", "clients", "sync", RSSAtRest, "", FloorPlus, 2 << 10},
		{"RSS per client at rest, after changes", "clients", "one", RSSAtRest, "", FloorPlus, 2 << 10},
		{"RSS per client at rest", "check", "sync", RSSAtRest, "", FloorPlus, 2 << 10},
		{"RSS per client at rest, after changes", "check", "one", RSSAtRest, "", FloorPlus, 2 << 10},
		{"CPU per client for first sync", "sync", "sync", CPUPerClient, "", TimesFloor, 1.3},
		{"p99 of propagation", "clients", "one", P99, "", TimesFloor, 1.2},
		{"resources resent in a warm storm", "storm", "warm", ResentPerClient, "delta", AtMost, 0},
		{"CPU of a return with versions, against a first sync", "delta-return", "warm", CPUPerClient, "", TimesSync, 1},
		{"CPU of a return with versions after a change of 1 %, against a first sync", "delta-return", "changed", CPUPerClient, "", TimesSync, 1},
		{"CPU of a return with versions, against one without", "delta-return", "warm", CPUPerClient, "", TimesCold, 1},
		{"CPU of a return with versions after a change of 1 %, against one without", "delta-return", "changed", CPUPerClient, "", TimesCold, 1},
		{"resources resent to clients that return with versions", "delta-return", "warm", ResentPerClient, "", AtMost, 0},
		{"resources resent to clients that return with versions after a change of 1 %", "delta-return", "changed", ResentPerClient, "", AtMost, 0},
		{"origin responses per change and key", "keys", "one", OriginResponses, "", AtMostKeys, 1},
		{"origin responses per change and key", "clients", "one", OriginResponses, "", AtMostKeys, 1},
		{"p99 of the others, with slow or stuck clients", "slow", "one", P99, "", TimesFirst, noise},
		{"CPU per response of the others", "slow", "one", CPUPerResponse, "", TimesFirst, noise},
		{"memory of a stuck client", "slow", "full", RSSPerClient, "", EachStuck, 64 << 10},
		{"live heap per client with mTLS", "tls", "sync", HeapPerClient, "", FloorPlus, 2.5 * 1024},
		{"CPU of a first sync with mTLS, against a handshake and a sync in plaintext", "tls", "sync", CPUPerClient, "", TimesParts, 1.1},
		{"streams refused while clients connect, with the memory that sizing asks for", "limit", "sync", Refused, "", AtMost, 0},
		{"clients shed and streams refused, with the memory that sizing asks for", "limit", "one", Refused, "", AtMost, 0},
		{"memory in use after a collection, of the formula in sizing for clients, keys and resources", "limit", "sync", OfFormula, "", AtMost, 100},
		{"the same after changes", "limit", "one", OfFormula, "", AtMost, 100},
		{"CPU while the origin is down, of a core", "outage-idle", "outage", CoreShare, "", AtMost, 1},
		{"log lines while the origin is down", "outage-idle", "outage", LogLines, "", AtMost, 100},
		{"clients that receive a revision that all of them reject", "rollout-rejected", "reject", Exposed, "", AtMost, 5},
		{"keys that do not refuse it", "rollout-rejected", "reject", NotHeld, "", AtMost, 0},
		{"time from the first rejection until it is refused", "rollout-rejected", "reject", HeldAfter, "", AtMost, 2000},
		{"NACKs to the control plane", "rollout-rejected", "reject", OriginNACKs, "", AtMost, 1},
		{"NACKs without the resource or the reason, or none at all", "rollout-rejected", "reject", Unexplained, "", AtMost, 0},
		{"clients that receive a revision with which they disconnect", "rollout-lost", "leave", ExposedShare, "", AtMost, 1},
		{"keys that do not refuse it", "rollout-lost", "leave", NotHeld, "", AtMost, 0},
		{"time from the first lost client until it is refused", "rollout-lost", "leave", HeldAfter, "", AtMost, 10_000},
		{"clients that receive it twice", "rollout-lost", "leave", ExposedAgain, "", AtMost, 0},
		{"clients that receive a revision with 5 % of errors instead of 0.1 %", "rollout-errors", "errors", ExposedShare, "", AtMost, 1},
		{"keys that do not refuse it", "rollout-errors", "errors", NotHeld, "", AtMost, 0},
		{"intervals of load reports until it is refused", "rollout-errors", "errors", HeldIntervals, "", AtMost, 2},
		{"clients that receive a good revision of all keys within the first bake", "rollout-keys", "accept", ExposedEarly, "", AtMost, 1},
		{"good revisions of all keys that do not reach all clients", "rollout-keys", "accept", NotComplete, "", AtMost, 0},
		{"clients that receive a bad revision of all keys after a good one", "rollout-keys", "reject", ExposedShare, "", AtMost, 1},
		{"clients that receive a bad revision of all keys", "rollout-keys-bad", "reject", ExposedShare, "", AtMost, 1},
		{"CPU per response and ACK with an idle policy", "rollout-cost", "one", CPUPerResponse, "", TimesFirst, 1.05},
		{"CPU per response and ACK while a revision is held", "rollout-cost", "held", CPUPerResponse, "", TimesFirst, 1.1},
		{"p99 of endpoints while a revision is held", "rollout-cost", "held", P99, "", TimesFirst, 1.05},
		{"live heap per client with a policy", "rollout-memory", "sync", HeapPerClient, "", FirstPlus, 16},
		{"live heap per key with a policy", "rollout-memory", "sync", HeapPerKey, "", FirstPlus, 224},
		{"live heap per client", "check", "sync", HeapPerClient, "", FloorPlus, 2.5 * (1 << 10)},
		{"live heap per client after changes", "check", "one", HeapPerClient, "", FloorPlus, 2.5 * (1 << 10)},
		{"memory in use per client, with stacks and the runtime's own", "check", "sync", InUsePerClient, "", FloorPlus, 5 << 10},
		{"memory in use per client, with stacks and the runtime's own, after changes", "check", "one", InUsePerClient, "", FloorPlus, 5 << 10},
		{"objects allocated per response and ACK", "check", "one", AllocsPerAnswer, "", FloorPlus, 6},
		{"live heap of a small key and its client", "check-keys", "sync", HeapPerKey, "", AtMost, 60 << 10},
		{"live heap of a key that is equal to others", "check-keys", "sync", HeapPerKey, "", TimesFirst, 0.9},
	}
}

// exact are the metrics that hardly differ from run to run.
var exact = []string{RSSAtRest, HeapPerClient, HeapPerKey, AllocsPerAnswer, OfFormula, InUsePerClient}

// Verdict is a budget in one case.
type Verdict struct {
	What     string `json:"what"`
	Case     string `json:"case"`
	Limit    string `json:"limit"`
	Measured string `json:"measured"`
	Met      bool   `json:"met"`
	// Exact says that the metric hardly differs from run to run, so that a miss is a mistake of the
	// code and not of the machine.
	Exact bool `json:"exact,omitempty"`
}

// judge compares with the budgets of a scenario whatever was measured for them.
func judge(scenario string, s *Summary) []Verdict {
	verdicts := []Verdict{}
	for _, b := range Budgets() {
		if b.Scenario != scenario {
			continue
		}
		for i := range s.Cases {
			if b.Variant != "" && b.Variant != s.Cases[i].setup.Variant {
				continue
			}
			if v, ok := b.judge(s, &s.Cases[i]); ok {
				verdicts = append(verdicts, v)
			}
		}
	}
	return verdicts
}

// judge says whether a case keeps to the budget; false means that it does not
// show.
func (b *Budget) judge(s *Summary, c *CaseSummary) (Verdict, bool) {
	v := Verdict{What: b.What, Case: c.Name, Exact: slices.Contains(exact, b.Metric)}
	cell, unit := c.cell(s.Targets, RelayTarget, b.Step, b.Metric)
	if cell == nil {
		return v, false
	}
	floor, _ := c.cell(s.Targets, FloorTarget, b.Step, b.Metric)
	first := s.firstLike(c)
	var base *Cell
	if first != nil {
		base, _ = first.cell(s.Targets, RelayTarget, b.Step, b.Metric)
	}
	var measured float64
	switch b.Bound {
	case AtMost:
		measured, v.Limit = cell.Median, unit.Format(b.Limit)
	case AtMostKeys:
		measured, v.Limit = cell.Median/float64(max(c.setup.Keys, 1)), unit.Format(b.Limit)
	case TimesFloor:
		if floor == nil || floor.Median <= 0 {
			return v, false
		}
		measured, v.Limit = cell.Median/floor.Median, fmt.Sprintf("%g × floor", b.Limit)
		if s.Reference == FloorTarget && cell.Ratio > 0 {
			measured = cell.Ratio
		}
		unit = "×"
	case FloorPlus:
		if floor == nil {
			return v, false
		}
		measured, v.Limit = cell.Median-floor.Median, "floor + "+unit.Format(b.Limit)
	case TimesFirst:
		if base == nil || base.Median <= 0 {
			return v, false
		}
		measured, v.Limit = cell.Median/base.Median, fmt.Sprintf("%g × %s", b.Limit, difference(first.Name, c.Name))
		unit = "×"
	case FirstPlus:
		if base == nil {
			return v, false
		}
		measured, v.Limit = cell.Median-base.Median, fmt.Sprintf("%s + %s", difference(first.Name, c.Name), unit.Format(b.Limit))
	case TimesParts:
		if base == nil || floor == nil {
			return v, false
		}
		alike, _ := first.cell(s.Targets, FloorTarget, b.Step, b.Metric)
		if alike == nil {
			return v, false
		}
		measured = cell.Median / (base.Median + floor.Median - alike.Median)
		v.Limit, unit = fmt.Sprintf("%g × handshake and sync", b.Limit), "×"
	case TimesSync, TimesCold:
		step, what := "sync", "first sync"
		if b.Bound == TimesCold {
			step, what = "cold", "return without"
		}
		other, _ := c.cell(s.Targets, RelayTarget, step, b.Metric)
		if other == nil || other.Median <= 0 {
			return v, false
		}
		measured, v.Limit, unit = cell.Median/other.Median, fmt.Sprintf("%g × %s", b.Limit, what), "×"
	case EachStuck:
		if base == nil || c.setup.StuckClients() == 0 {
			return v, false
		}
		measured = (cell.Median - base.Median) * float64(c.setup.Clients) / float64(c.setup.StuckClients())
		v.Limit = unit.Format(b.Limit)
	}
	v.Measured, v.Met = unit.Format(measured), measured <= b.Limit
	return v, true
}

// firstLike returns the first case with the variant and the number of clients
// of another; nil if it is that itself.
func (s *Summary) firstLike(c *CaseSummary) *CaseSummary {
	for i := range s.Cases {
		first := &s.Cases[i]
		if first.setup.Variant == c.setup.Variant && first.setup.Clients == c.setup.Clients {
			if first == c {
				return nil
			}
			return first
		}
	}
	return nil
}

// difference is what the name of a case says and that of another does not.
func difference(name, other string) string {
	has := make(map[string]bool)
	for part := range strings.SplitSeq(other, ", ") {
		has[part] = true
	}
	var parts []string
	for part := range strings.SplitSeq(name, ", ") {
		if !has[part] {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "without"
	}
	return strings.Join(parts, ", ")
}

// LimitText is the limit in words.
func (b *Budget) LimitText() string {
	unit := map[string]Unit{RSSPerClient: Bytes, RSSAtRest: Bytes, HeapPerClient: Bytes, HeapPerKey: Bytes, AllocsPerAnswer: Count, CoreShare: Percent, OfFormula: Percent, InUsePerClient: Bytes, ExposedShare: Percent, ExposedEarly: Percent, HeldAfter: Millis}[b.Metric]
	switch b.Bound {
	case AtMostKeys:
		return "≤ " + unit.Format(b.Limit) + " for each key"
	case TimesFloor:
		return fmt.Sprintf("≤ %g × floor", b.Limit)
	case FloorPlus:
		return "≤ floor + " + unit.Format(b.Limit)
	case TimesParts:
		return fmt.Sprintf("≤ %g × the first setup and what the floor takes more than there", b.Limit)
	case TimesFirst:
		return fmt.Sprintf("≤ %g × the first setup", b.Limit)
	case FirstPlus:
		return "≤ the first setup + " + unit.Format(b.Limit)
	case TimesSync:
		return fmt.Sprintf("≤ %g × the first sync", b.Limit)
	case TimesCold:
		return fmt.Sprintf("≤ %g × the return without versions", b.Limit)
	case EachStuck:
		return "≤ " + unit.Format(b.Limit) + " for each stuck client"
	}
	return "≤ " + unit.Format(b.Limit)
}
