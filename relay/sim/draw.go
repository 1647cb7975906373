package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Draw makes the plan of a seed: any events that there are, at any times, for as long as
// they like, so that they meet.
func Draw(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := Plan{Setup: Setup{
		Seed: seed, Nodes: 2 + r.IntN(3), Keys: 1 + r.IntN(3), Clients: 4 + r.IntN(5), Size: 3 + r.IntN(6),
		SotW: r.IntN(2) == 0, Guard: r.IntN(2) == 0, Kept: keeps[r.IntN(len(keeps))],
		Length: time.Duration(2+r.IntN(9)) * time.Minute,
	}}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(acts)) {
		for range acts[name].weight {
			names = append(names, name)
		}
	}
	// Events come in bursts, as faults do of which one leads to another.
	for burst := range 1 + r.IntN(1+int(p.Length/time.Minute)) {
		at := 5*time.Second + rand64(r, p.Length*3/4)
		for range 2 + r.IntN(8) {
			name := names[r.IntN(len(names))]
			e := Event{At: round(at + rand64(r, 40*time.Second)), Do: name, Args: acts[name].draw(p.Setup, r)}
			if acts[name].long {
				e.For = duration(r)
			}
			p.Events = append(p.Events, e)
		}
		_ = burst
	}
	if seed%storyEvery == 0 {
		p.addStory(rand.New(rand.NewPCG(seed, 2)))
	}
	// What came later is drawn apart, so that other seeds keep their plans.
	if r := rand.New(rand.NewPCG(seed, 4)); seed%clocksEvery == 1 {
		p.addClocks(r)
	}
	if r := rand.New(rand.NewPCG(seed, 5)); seed%pollsEvery == 3 {
		p.Polls = 1 + r.IntN(3)
	}
	p.sort()
	return p
}

// DrawStaged makes the plan of a seed with rollout policies.
func DrawStaged(seed uint64) Plan {
	p := Draw(seed)
	p.addRollouts(rand.New(rand.NewPCG(seed, 6)))
	p.sort()
	return p
}

const (
	// storyEvery is how many seeds there are for one whose plan has a story.
	storyEvery = 7
	// clocksEvery and pollsEvery are the same for clocks of single nodes and polling clients.
	clocksEvery, pollsEvery = 4, 6
)

// keeps are the values of Kept.
var keeps = []string{"none", "directory", "redis"}

// duration is how long an event lasts: often moments, sometimes longer than all times of
// the product.
func duration(r *rand.Rand) time.Duration {
	share := r.Float64()
	return round(200*time.Millisecond + time.Duration(share*share*share*float64(150*time.Second)))
}

func rand64(r *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(below)))
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
