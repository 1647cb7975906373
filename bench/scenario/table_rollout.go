package scenario

import (
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/fleet"
	"xdsrelay/bench/report"
)

// rollouts returns the scenarios of rollout policies. The group rollout is all of them.
func rollouts() []Scenario {
	usual := report.Setup{Variant: variantDelta, Clients: 1000, Keys: 1, Resources: 100, Nodes: 1, Kept: true, Bake: 20}
	sotw, tier := usual, usual
	sotw.Variant = variantSotW
	tier.Nodes, tier.Tier = 3, true
	reporting := usual
	reporting.ReportEvery = 2000
	keys := usual
	keys.Keys, keys.Resources, keys.Bake = 100, 10, 5
	few := usual
	few.Clients = 200 // so that machine and origin can follow
	small := usual
	small.Keys, small.Clients, small.Resources, small.Cold = 500, 500, 10, true
	rejectAll := Step{Name: "reject", Do: Release, React: fleet.Reject, For: 20 * time.Second}
	relay := []string{report.RelayTarget}
	reject := Step{Name: "reject", Do: Release, React: fleet.Reject, For: 30 * time.Second}

	return []Scenario{
		{
			Name: "rollout-rejected", Answers: "How many clients receive a revision that all of them reject, when is it refused, and what does the control plane get?",
			Setups: []report.Setup{usual, sotw, tier}, Targets: relay, Steps: []Step{syncStep, reject},
		},
		{
			Name: "rollout-lost", Answers: "How many clients receive a revision with which they disconnect, when is it refused, and does any receive it twice?",
			Setups: []report.Setup{usual, tier}, Targets: relay,
			Steps: []Step{syncStep, {Name: "leave", Do: Release, React: fleet.Leave, Within: 5 * time.Second, For: 90 * time.Second}},
		},
		{
			Name: "rollout-errors", Answers: "After how many load reports is a revision refused with which 5 % of requests fail, instead of 0.1 %?",
			Setups: []report.Setup{reporting}, Targets: relay,
			Steps: []Step{syncStep, {Name: "errors", Do: Release, React: reactErrors, For: 60 * time.Second}},
		},
		{
			Name: "rollout-keys", Answers: "How many clients receive a change of all keys before its first bake is over, and how many a bad one that follows it?",
			Setups: []report.Setup{keys}, Targets: relay,
			Steps: []Step{
				syncStep, {Name: "accept", Do: Release, React: fleet.Accept, For: 2 * time.Minute},
				{Do: Wait, For: 15 * time.Second}, // the final bakes
				rejectAll,
			},
		},
		{
			Name: "rollout-keys-bad", Answers: "How many clients receive a bad change of all keys, if there was none before?",
			Setups: []report.Setup{keys}, Targets: relay, Steps: []Step{syncStep, rejectAll},
		},
		{
			Name: "rollout-cost", Answers: "What do changes of endpoints cost with a rollout policy, and while it holds a revision back?",
			Setups: unlike(few), Targets: relay,
			Steps: []Step{
				syncStep, {Name: "one", Do: Change, Change: oneStep.Change, Interval: 50 * time.Millisecond, Count: 100}, reject,
				{Name: "held", Do: Change, Change: content.Change{Kind: content.One, Type: content.EndpointURL}, Interval: 10 * time.Millisecond, Count: 1000},
			},
		},
		{
			Name: "rollout-memory", Answers: "What memory does a rollout policy take for each client and each key?",
			Setups: append(unlike(usual), unlike(small)...), Targets: relay, Steps: []Step{syncStep},
		},
	}
}

// unlike returns a setup without its rollout policy, and with it.
func unlike(s report.Setup) []report.Setup {
	without := s
	without.Bake = 0
	return []report.Setup{without, s}
}
