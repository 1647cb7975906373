package scenario

import (
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/report"
)

// The variants that clients may speak.
const (
	variantDelta = "delta"
	variantSotW  = "sotw"
)

// The steps that most scenarios have.
var (
	syncStep = Step{Name: "sync", Do: Connect}
	fullStep = Step{Name: "full", Do: Change, Change: content.Change{Kind: content.Full}, Count: 5, Interval: 2 * time.Second}
	oneStep  = Step{Name: "one", Do: Change, Change: content.Change{Kind: content.One, Type: content.EndpointURL}}
)

// All returns the scenarios, in the order in which they are listed.
func All() []Scenario {
	usual := report.Setup{Variant: variantDelta, Clients: 1000, Keys: 1, Resources: 100, Nodes: 1}
	many := usual
	many.Clients = 5000
	large := many
	large.Variant, large.Size, large.Clients = variantSotW, 1024, 1000
	large.Types = "cds" // a changed cluster would bring its endpoints along (E3), a small response
	crowd := many
	crowd.Clients = 6000
	crowdSotW, heavy := crowd, crowd
	crowdSotW.Variant, heavy.Resources = variantSotW, 1000
	admitted := heavy
	admitted.Admit = 100
	limited := usual
	limited.Clients = 4000
	limitedTLS := limited
	limitedTLS.TLS = report.MTLS
	limitedKeys := usual
	limitedKeys.Keys, limitedKeys.Clients, limitedKeys.Resources, limitedKeys.Cold = 2000, 2000, 10, true
	limitedResources := usual
	// One client: bodies of several, which come while the resources do, are part of what is shared.
	limitedResources.Clients, limitedResources.Resources, limitedResources.Cold = 1, 20_000, true
	halves := usual
	halves.Nodes = 2
	slow, stuck := usual, usual
	slow.Slow, stuck.Stuck = 10, 10
	quick := usual
	quick.Clients = 200 // so that machine and origin can follow
	tier := usual
	tier.Tier, tier.Nodes, tier.Keys, tier.Clients = true, 3, 100, 300 // one client of each key at each node
	own := usual
	own.Keys, own.Clients, own.Resources, own.Cold = 500, 500, 500, true
	widest := usual
	widest.Keys, widest.Clients, widest.PerConnection, widest.Resources, widest.Cold = 10_000, 100_000, 10, 10, true
	equal, few := own, own
	equal.Equal = true
	few.Keys, few.Clients, few.Resources = 2000, 2000, 10
	small := usual
	small.Keys, small.Clients, small.Resources, small.Cold = 500, 500, 10, true
	alike := small
	alike.Equal = true
	mutual, resumed := usual, usual
	mutual.TLS, resumed.TLS = report.MTLS, report.MTLSTickets
	compared := []string{report.FloorTarget, report.OriginTarget, report.RelayTarget}

	return append([]Scenario{
		{
			Name: "steady", Answers: "What does each client cost when one resource, a burst of 20 or everything changes?",
			Setups: both(usual), Targets: compared,
			Steps: []Step{
				syncStep, oneStep,
				{Name: "burst", Do: Change, Change: content.Change{Kind: content.Burst, Resources: 20, Type: content.EndpointURL}},
				fullStep,
			},
		},
		{
			Name: "clients", Answers: "How do cost and propagation grow with the number of clients?",
			Setups:  replace(both(usual), []int{1000, 5000, 10000}, func(s *report.Setup, n int) { s.Clients = n }),
			Targets: compared,
			Steps: []Step{syncStep, {
				Name: "one", Do: Change, Change: content.Change{Kind: content.One, Type: content.EndpointURL}, Interval: 2 * time.Second,
			}},
		},
		{
			Name: "keys", Answers: "What does it cost that clients differ in what they want?",
			Setups:  append(replace(both(usual), []int{1, 10, 1000}, func(s *report.Setup, n int) { s.Keys = n }), widest),
			Targets: compared, Steps: []Step{syncStep, oneStep},
		},
		{
			Name: "equal", Answers: "What does a key cost that has the same resources as others, one that has its own, and a small one with one client?",
			Setups: []report.Setup{own, equal, few}, Targets: []string{report.RelayTarget},
			Steps: []Step{syncStep, oneStep},
		},
		{
			Name: "resources", Answers: "Does a change cost more where there are more resources?",
			Setups:  replace([]report.Setup{usual}, []int{100, 1000, 10000}, func(s *report.Setup, n int) { s.Resources = n }),
			Targets: compared, Steps: []Step{syncStep, oneStep},
		},
		{
			Name: "large", Answers: "What does a response of 100 KB cost: all clusters, in SotW, after one has changed?",
			Setups: []report.Setup{large}, Targets: compared,
			Steps: []Step{syncStep, {Name: "one", Do: Change, Change: content.Change{Kind: content.One, Type: content.ClusterURL}}},
		},
		{
			Name: "limit", Answers: "Does a node with the memory of the formula in sizing.md refuse or shed clients, and does it use no more than the formula for clients, TLS clients, keys and resources?",
			Setups:  sized(append(both(limited), limitedTLS, limitedKeys, limitedResources)),
			Targets: []string{report.RelayTarget},
			Steps:   []Step{syncStep, {Name: "one", Do: Change, Change: oneStep.Change, Count: 60}},
		},
		{
			Name: "sync", Answers: "What does a client cost that connects, and holds everything?",
			Setups: both(many), Targets: compared,
			Steps: []Step{syncStep, {Name: "idle", Do: Wait, For: 10 * time.Second}},
		},
		{
			Name: "storm", Answers: "What is sent again to clients that reconnect all at once, with and without versions?",
			Setups: both(usual), Targets: compared,
			Steps: []Step{
				syncStep,
				{Name: "warm", Do: Storm},
				{Name: "cold", Do: Storm, Cold: true},
			},
		},
		{
			Name: "delta-return", Answers: "What does a client cost that reconnects with versions, when nothing has changed or 1 % has, compared with its first sync and a reconnect without versions?",
			Setups:  replace([]report.Setup{usual}, []int{100, 1000}, func(s *report.Setup, n int) { s.Resources = n }),
			Targets: []string{report.OriginTarget, report.RelayTarget},
			Steps: []Step{
				syncStep,
				{Name: "warm", Do: Storm},
				{Name: "changed", Do: Storm, Percent: 1},
				{Name: "cold", Do: Storm, Cold: true},
			},
		},
		{
			Name: "reconnect", Answers: "What does it take to bring 5,000 clients back that were cut off all at once, while 1,000 stay, and what if the relay refuses most of them at first?",
			Setups: []report.Setup{crowd, crowdSotW, heavy, admitted}, Targets: []string{report.RelayTarget},
			Steps: []Step{
				syncStep,
				{Name: "warm", Do: Storm, Count: 5000},
				{Name: "cold", Do: Storm, Count: 5000, Cold: true},
			},
		},
		{
			Name: "outage", Answers: "Can clients connect while the control plane is down, and catch up when it is back?",
			Setups: both(usual), Targets: []string{report.RelayTarget, report.OriginTarget},
			Steps: []Step{
				{Do: Down},
				{Name: "sync", Do: Connect, For: 20 * time.Second, Partial: true},
				{Do: Up},
				{Name: "back", Do: Change, Change: oneStep.Change, For: 20 * time.Second, Partial: true},
			},
		},
		{
			Name: "outage-idle", Answers: "What does the target do while the control plane is down and no client requests anything?",
			Setups: both(usual), Targets: []string{report.RelayTarget},
			Steps: []Step{
				syncStep, {Name: "idle", Do: Wait, For: 10 * time.Second},
				{Do: Down}, {Name: "outage", Do: Wait, For: time.Minute}, {Do: Up},
				{Name: "back", Do: Change, Change: oneStep.Change, Partial: true},
			},
		},
		{
			Name: "slow", Answers: "What do slow and stuck clients cost, and what do the others notice?",
			// The floor does nothing for slow clients, so that all wait for one.
			Setups: []report.Setup{usual, slow, stuck}, Targets: []string{report.OriginTarget, report.RelayTarget},
			// Small changes fit into the system's buffers; full ones do not.
			Steps: []Step{syncStep, oneStep, fullStep},
		},
		{
			Name: "restart", Answers: "What happens to clients of two nodes that are restarted, one after the other?",
			Setups: both(halves), Targets: []string{report.RelayTarget},
			Steps: []Step{syncStep, {Name: "restart", Do: Restart}, oneStep},
		},
		{
			Name: "tier", Answers: "What do three nodes exchange with Redis and with each other when a key changes, and when nothing does?",
			Setups: both(tier), Targets: []string{report.RelayTarget},
			Steps: []Step{
				syncStep,
				{Name: "idle", Do: Wait, For: 10 * time.Second},
				{
					Name: "one", Do: Change, Count: 100, Interval: 100 * time.Millisecond,
					Change: content.Change{Kind: content.One, Type: content.EndpointURL, OneKey: true},
				},
			},
		},
		{
			Name: "tls", Answers: "What do certificates on both sides cost, above plaintext and above crypto/tls, and what do session tickets save?",
			Setups: []report.Setup{usual, mutual, resumed}, Targets: []string{report.FloorTarget, report.RelayTarget},
			Steps: []Step{syncStep, oneStep, {Name: "warm", Do: Storm}},
		},
		{
			Name: "churn", Answers: "What does a control plane cost that changes 1,000 endpoints per second, and a cluster now and then, with and without a minimum interval?",
			Setups:  replace(both(quick), []int{0, 200}, func(s *report.Setup, ms int) { s.MinInterval = ms }),
			Targets: []string{report.RelayTarget},
			Steps: []Step{syncStep, {
				Name: "churn", Do: Change, Count: 9_999, Interval: time.Millisecond,
				Change: content.Change{Kind: content.One, Type: content.EndpointURL, ClusterEvery: 500},
			}},
		},
		{
			Name: "check", Answers: "Is the relay as near to the floor as in the last result?",
			Setups: both(usual), Targets: []string{report.FloorTarget, report.RelayTarget},
			Steps: []Step{syncStep, {Name: "one", Do: Change, Change: oneStep.Change, Interval: 500 * time.Millisecond}},
		},
		{
			Name: "check-keys", Answers: "Does a small key take as little memory as it did, and a key that is equal to others less?",
			Setups: []report.Setup{small, alike}, Targets: []string{report.RelayTarget}, Steps: []Step{syncStep},
		},
	}, rollouts()...)
}

// both returns a setup in both variants.
func both(s report.Setup) []report.Setup {
	return replace([]report.Setup{s}, []string{variantDelta, variantSotW}, func(s *report.Setup, v string) { s.Variant = v })
}
