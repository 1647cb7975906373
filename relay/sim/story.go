package sim

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// Stories are events that follow from one another in hours for which a tier is bought. By
// chance alone they meet in one of thousands of plans.
var stories = []func(p *Plan, r *rand.Rand, at time.Duration){restartsInOutage, growsInOutage, powerOfAll, fades}

// addStory adds a story to a plan. What else happens may spoil it, so half of the time there is
// nothing else.
func (p *Plan) addStory(r *rand.Rand) {
	if r.IntN(2) == 0 {
		p.Events = nil
	}
	stories[r.IntN(len(stories))](p, r, 20*time.Second+round(rand64(r, 20*time.Second)))
	for _, e := range p.Events {
		p.Length = max(p.Length, e.End())
	}
}

func (p *Plan) add(at, length time.Duration, do string, args ...string) {
	p.Events = append(p.Events, Event{At: at, For: length, Do: do, Args: args})
}

// restartsInOutage restarts all nodes, one after the other, while the control plane is away and
// a key has no clients for so long that nodes only keep it in memory. Then its clients return,
// and others come.
func restartsInOutage(p *Plan, r *rand.Rand, at time.Duration) {
	const idle, pace = 65 * time.Second, handsOver + time.Second
	key := aKey(p.Setup, r)[0]
	restarts := at + 5*time.Second + idle
	back := restarts + time.Duration(p.Nodes)*pace + 2*time.Second
	p.add(at, back-at+30*time.Second, "cp-down")
	p.add(at+5*time.Second, back-at-5*time.Second, "away", key)
	for i := range p.Nodes {
		p.add(restarts+time.Duration(i)*pace, 3*time.Second+round(rand64(r, 2*time.Second)), "drain", nodeName(i))
	}
	p.add(back+time.Second, 0, "arrive", key, "4")
}

// growsInOutage adds nodes while the control plane is away, for which clients come.
func growsInOutage(p *Plan, r *rand.Rand, at time.Duration) {
	p.add(at, 60*time.Second+round(rand64(r, 30*time.Second)), "cp-down")
	for i := range moreNodes {
		p.add(at+15*time.Second+time.Duration(i)*time.Second, 35*time.Second+round(rand64(r, 10*time.Second)), "add")
	}
	p.add(at+25*time.Second, 0, "arrive", aKey(p.Setup, r)[0], "4")
}

// powerOfAll takes the power from all nodes a moment after a change, of which Redis has the tier
// heads and no record yet. When they return, the control plane is slow.
func powerOfAll(p *Plan, r *rand.Rand, at time.Duration) {
	p.Kept = "redis"
	key := aKey(p.Setup, r)
	p.add(at, 0, "change", key[0], "6")
	lost := at + 400*time.Millisecond + round(rand64(r, 400*time.Millisecond))
	down := time.Second + round(rand64(r, 2*time.Second))
	for i := range p.Nodes {
		p.add(lost, down, "power", nodeName(i))
		p.add(lost+100*time.Millisecond, down+10*time.Second, "delay", nodeName(i), originHost, strconv.Itoa(300+r.IntN(900)))
	}
}

// fades lets all that a key has of a type disappear step by step.
func fades(p *Plan, r *rand.Rand, at time.Duration) {
	p.Guard = true
	p.add(at, 20*time.Second+round(rand64(r, 30*time.Second)), "cp-fades", aKey(p.Setup, r)...)
}
