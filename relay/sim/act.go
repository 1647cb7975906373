package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/robust/origin"
	"xdsrelay/relay/xdstest"
)

// act is something that an event can do.
type act struct {
	// draw makes the arguments of an event; long tells whether it has a duration.
	draw func(s Setup, r *rand.Rand) []string
	long bool
	// weight is how often it is drawn, compared with others.
	weight int

	begin func(w *World, number int, e Event)
	end   func(w *World, number int, e Event) // nil unless long
}

// Kinds of arguments.
func aNode(s Setup, r *rand.Rand) []string { return []string{nodeName(r.IntN(s.Nodes))} }
func aKey(s Setup, r *rand.Rand) []string  { return []string{keyName(r.IntN(s.Keys))} }
func none(Setup, *rand.Rand) []string      { return nil }

// aPair is two hosts of which one is a node.
func aPair(s Setup, r *rand.Rand) []string {
	node := r.IntN(s.Nodes)
	switch r.IntN(4) {
	case 0:
		return []string{nodeName(node), redisHost}
	case 1:
		return []string{nodeName(node), originHost}
	case 2:
		return []string{nodeName(node), clientsHost}
	}
	if s.Nodes == 1 {
		return []string{nodeName(0), redisHost}
	}
	return []string{nodeName(node), nodeName((node + 1 + r.IntN(s.Nodes-1)) % s.Nodes)}
}

// and adds a number of a range to arguments.
func and(draw func(Setup, *rand.Rand) []string, from, to int) func(Setup, *rand.Rand) []string {
	return func(s Setup, r *rand.Rand) []string { return append(draw(s, r), strconv.Itoa(from+r.IntN(to-from+1))) }
}

// number is an argument that is one; what Parse has not checked counts as 0.
func (e Event) number(i int) int {
	n, _ := strconv.Atoi(e.arg(i))
	return n
}

func (e Event) arg(i int) string {
	if i < len(e.Args) {
		return e.Args[i]
	}
	return ""
}

// hosts are those that the event is about, beside nodes.
func (e Event) hosts() []string {
	switch family, _, _ := strings.Cut(e.Do, "-"); family {
	case redisHost, originHost:
		return []string{family}
	}
	return nil
}

func keyName(i int) string { return fmt.Sprintf("key%d", i) }

// healPath takes back what an event has made wrong on the network.
func healPath(w *World, number int, _ Event) { w.heal(number) }

// faultPath makes the ways of two hosts as they are in an event, both ways.
func faultPath(way func(Event) xdstest.Way) func(*World, int, Event) {
	return func(w *World, number int, e Event) {
		a, b := e.arg(0), e.arg(1)
		w.trouble(number, both(a, b, way(e))...)
		if way(e).Refused {
			w.cut(a, b)
		}
	}
}

// acts are all that plans are made of, by name.
var acts = map[string]*act{
	// What control planes and clients do all day.
	"change": {draw: and(aKey, 1, 6), weight: 10, begin: func(w *World, _ int, e Event) {
		for range e.number(1) {
			w.origin.Change(e.arg(0), w.random)
		}
	}},
	"move":   {draw: and(none, 5, 100), weight: 4, begin: func(w *World, _ int, e Event) { w.fleet.move(w.percent(e.number(0))) }},
	"away":   {draw: aKey, long: true, weight: 2, begin: func(w *World, _ int, e Event) { w.fleet.leave(e.arg(0)) }, end: func(w *World, _ int, e Event) { w.fleet.back(e.arg(0)) }},
	"arrive": {draw: and(aKey, 1, 4), weight: 5, begin: arrive},

	// Nodes.
	"kill":  {draw: aNode, long: true, weight: 3, begin: killNode(true), end: startNode},
	"power": {draw: aNode, long: true, weight: 2, begin: killNode(false), end: startNode},
	"drain": {draw: aNode, long: true, weight: 2, begin: drainNode, end: startNode},
	"pause": {draw: aNode, long: true, weight: 2, begin: pauseNode, end: healPath},
	"add":   {draw: none, long: true, weight: 2, begin: addNode, end: drainNode},
	"roll":  {draw: and(none, 5, 30), weight: 1, begin: rollNodes},
	"sleep": {draw: aNode, long: true, begin: sleepNode, end: wakeNode},          // see addClocks
	"clock": {draw: aClock, long: true, begin: turnClock(1), end: turnClock(-1)}, // see addClocks

	// The network.
	"cut":   {draw: aPair, long: true, weight: 4, begin: faultPath(func(Event) xdstest.Way { return xdstest.Way{Refused: true} }), end: healPath},
	"stall": {draw: aPair, long: true, weight: 3, begin: faultPath(func(Event) xdstest.Way { return xdstest.Way{Stalled: true} }), end: healPath},
	"halve": {draw: aPair, long: true, weight: 2, begin: func(w *World, number int, e Event) {
		w.trouble(number, trouble{e.arg(0), e.arg(1), xdstest.Way{Stalled: true}})
	}, end: healPath},
	"delay": {draw: and(aPair, 5, 1500), long: true, weight: 3, begin: faultPath(func(e Event) xdstest.Way {
		d := time.Duration(e.number(2)) * time.Millisecond
		return xdstest.Way{Delay: d / 2, Jitter: d}
	}), end: healPath},

	// Redis.
	"redis-down":  {draw: none, long: true, weight: 2, begin: func(w *World, _ int, _ Event) { w.redis.kill() }, end: func(w *World, _ int, _ Event) { w.redis.start() }},
	"redis-flush": {draw: none, weight: 1, begin: func(w *World, _ int, _ Event) { w.redis.server.Flush() }},
	"redis-read-only": {draw: none, long: true, weight: 1, begin: func(w *World, _ int, _ Event) { w.redis.readOnly(1) },
		end: func(w *World, _ int, _ Event) { w.redis.readOnly(-1) }},
	"redis-clock": {draw: and(none, -100, 100), long: true, weight: 1,
		begin: func(w *World, _ int, e Event) { w.redis.server.SetClock(time.Duration(e.number(0)) * time.Second) },
		end:   func(w *World, _ int, _ Event) { w.redis.server.SetClock(0) }},

	// Disks.
	"disk-full": {draw: aNode, long: true, weight: 2, begin: onDisk(func(d *disk) { d.full++ }), end: onDisk(func(d *disk) { d.full-- })},
	"disk-lies": {draw: aNode, long: true, weight: 1, begin: onDisk(func(d *disk) { d.lies++ }), end: onDisk(func(d *disk) { d.lies-- })},

	// The control plane.
	"cp-down":  {draw: none, long: true, weight: 3, begin: func(w *World, number int, _ Event) { w.originDown(number) }, end: func(w *World, number int, _ Event) { w.originUp(number) }},
	"cp-empty": {draw: none, long: true, weight: 2, begin: emptyOrigin, end: rightOrigin},
	"cp-lacks": {draw: aKey, long: true, weight: 2, begin: lackingOrigin, end: rightOrigin},
	"cp-fades": {draw: aKey, long: true, begin: fadingOrigin, end: rightOrigin}, // in stories
	"cp-bad":   {draw: aKey, long: true, begin: badOrigin, end: fixOrigin},      // see addRollouts
	"cp-older": {draw: none, weight: 1, begin: func(w *World, _ int, _ Event) { w.origin.Restore(w.past) }},
}

func onDisk(change func(*disk)) func(*World, int, Event) {
	return func(w *World, _ int, e Event) {
		if n := w.node(e.arg(0)); n != nil {
			n.disk.change(change)
		}
	}
}

func arrive(w *World, _ int, e Event) {
	for range e.number(1) {
		w.fleet.add(e.arg(0), len(w.fleet.clients))
	}
	if w.plan.Polls > 0 {
		w.fleet.addPoller(e.arg(0))
	}
}

func killNode(reset bool) func(*World, int, Event) {
	return func(w *World, number int, e Event) {
		if n := w.node(e.arg(0)); n != nil && n.relay != nil {
			n.kill(number, reset)
		}
	}
}

func drainNode(w *World, number int, e Event) {
	n := w.node(e.arg(0))
	if e.Do == "add" {
		n = w.added[number]
	}
	if n != nil && n.relay != nil {
		n.drain(number)
	}
}

func startNode(w *World, number int, e Event) {
	if n := w.node(e.arg(0)); n != nil && n.relay == nil && n.downBy == number {
		n.start()
	}
}

// pauseNode stalls all ways of a node: as much of a stopped process as there is here.
func pauseNode(w *World, number int, e Event) {
	var all []trouble
	for _, other := range w.hosts() {
		if other != e.arg(0) {
			all = append(all, both(e.arg(0), other, xdstest.Way{Stalled: true})...)
		}
	}
	w.trouble(number, all...)
}

// addNode starts a further node, which ends with the event.
func addNode(w *World, number int, _ Event) {
	for _, n := range w.nodes[w.plan.Nodes:] {
		if n.relay == nil && w.added[number] == nil {
			w.added[number] = n
			n.start()
		}
	}
}

// rollNodes restarts one node after the other, so many seconds apart.
func rollNodes(w *World, number int, e Event) {
	pace := time.Duration(e.number(0)) * time.Second
	for i := range w.plan.Nodes {
		one := Event{Do: "drain", Args: []string{nodeName(i)}}
		w.later(time.Duration(i)*pace, func() { drainNode(w, number, one) })
		w.later(time.Duration(i)*pace+pace*3/4, func() { startNode(w, number, one) })
	}
}

// emptyOrigin takes all from all keys, as a control plane does that has lost its inputs.
func emptyOrigin(w *World, number int, _ Event) {
	w.righted[number] = w.origin.Snapshot()
	w.origin.Restore(nil)
}

// lackingOrigin takes most of one type from a key.
func lackingOrigin(w *World, number int, e Event) {
	before := w.origin.Snapshot()
	w.righted[number] = before
	typeURL := origin.Types[w.random.IntN(len(origin.Types))]
	w.origin.Lose(e.arg(0), typeURL, w.random)
}

// fadingOrigin takes most of a full-state type from a key, and then the rest, step by step.
func fadingOrigin(w *World, number int, e Event) {
	w.righted[number] = w.origin.Snapshot()
	full := slices.DeleteFunc(slices.Clone(origin.Types[:]), func(typeURL string) bool { return !xdstest.FullState(typeURL) })
	typeURL := full[w.random.IntN(len(full))]
	for i := range 3 {
		w.later(time.Duration(i)*2*time.Second, func() {
			if w.righted[number] != nil {
				w.origin.Lose(e.arg(0), typeURL, w.random)
			}
		})
	}
}

// rightOrigin gives back what an event has taken.
func rightOrigin(w *World, number int, _ Event) {
	if before := w.righted[number]; before != nil {
		w.origin.Return(before)
		delete(w.righted, number)
		w.fixBad()
	}
}
