package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/origin"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// Config is what a run has beside its plan.
type Config struct {
	// Token is a file with the secret of all nodes.
	Token string
	// Log is where all parts log, and what clients and the control plane see is noted; nil for
	// nowhere.
	Log io.Writer
}

// World is all parts of a run, in one bubble of virtual time. It belongs to one
// goroutine.
type World struct {
	t       *scene
	cfg     Config
	plan    Plan
	to      *record.Recorder
	suite   *check.Suite
	judge   *judge
	network *network
	origin  *origin.Origin
	redis   *redis
	nodes   []*node // those that run from the beginning, then those that may be added
	fleet   *fleet
	clocks  *clocks
	random  *rand.Rand

	originAddr string
	tokenFile  string
	originBy   map[int]bool // the events that keep the control plane down
	past       map[string]origin.Set
	righted    map[int]map[string]origin.Set // what the control plane gets back, by event
	added      map[int]*node                 // by event
	bad        bad
	ends       []ending
	agenda     []item // sorted by time
	begun      time.Time
	rested     int // how many times all was at rest

	recent []record.Event
	found  []check.Contradiction
}

// ending is a relay that has been told to end.
type ending struct {
	node string
	done <-chan error // nil when it has
}

// item is something to do at a time.
type item struct {
	at time.Time
	do func()
}

// moreNodes is how many nodes can be added to those that run from the beginning.
const moreNodes = 2

// sharedWriter is a writer for several goroutines.
type sharedWriter struct {
	mu sync.Mutex
	to io.Writer // guarded by mu
}

func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// newWorld starts all parts, and waits until they are at rest.
func newWorld(t *scene, plan Plan, cfg Config) *World {
	if cfg.Log != nil {
		cfg.Log = &sharedWriter{to: cfg.Log}
	}
	w := &World{
		t: t, cfg: cfg, plan: plan, to: record.NewRecorder(), network: newNetwork(), tokenFile: cfg.Token,
		suite:  check.New(check.Options{Tier: true, Digests: !plan.SotW, Hold: plan.hold()}),
		random: rand.New(rand.NewPCG(plan.Seed, 3)), originBy: make(map[int]bool),
		righted: make(map[int]map[string]origin.Set), added: make(map[int]*node),
	}
	w.judge, w.clocks = newJudge(w), newClocks(w)
	var keys []string
	for i := range plan.Keys {
		keys = append(keys, keyName(i))
	}
	state := w.network.memory.NewHost(originHost, "127.0.0.3").NewStateOrigin(t, (*corev3.Node).GetCluster)
	if err := state.PermitPings(); err != nil {
		t.Fatalf("%v", err)
	}
	w.originAddr = state.Addr()
	w.origin = origin.New(state, w.to, keys, plan.Size, plan.SotW)
	w.past = w.origin.Snapshot()
	w.to.Add(record.Event{Kind: record.Begin})
	w.redis = &redis{world: w}
	w.redis.start()
	for i := range plan.Nodes + moreNodes {
		n := &node{world: w, name: nodeName(i), ip: nodeIP(i), disk: newDisk()}
		w.nodes = append(w.nodes, n)
		if i < plan.Nodes {
			n.start()
		}
	}
	w.sleep(2 * time.Second)
	w.judge.baseline = runtime.NumGoroutine()
	w.fleet = &fleet{world: w}
	for i := range plan.Clients * plan.Keys {
		w.fleet.add(keys[i%plan.Keys], i/plan.Keys)
	}
	for i := range plan.Polls * plan.Keys {
		w.fleet.addPoller(keys[i%plan.Keys])
	}
	w.rest()
	return w
}

// hosts are the names of all hosts.
func (w *World) hosts() []string {
	all := []string{redisHost, originHost, clientsHost}
	for _, n := range w.nodes {
		all = append(all, n.name)
	}
	return all
}

func (w *World) node(name string) *node {
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		return nil
	}
	return w.nodes[i]
}

// host is a machine by its name; nil if it is down, or is that of the clients.
func (w *World) host(name string) *xdstest.Host {
	if n := w.node(name); n != nil {
		return n.host
	}
	if name == redisHost {
		return w.redis.host
	}
	return nil
}

// cut resets the connections between two hosts.
func (w *World) cut(a, b string) {
	if h := w.host(a); h != nil {
		h.Cut(b)
	} else if h := w.host(b); h != nil {
		h.Cut(a)
	}
}

// trouble begins what an event makes wrong on the network, and heal ends it.
func (w *World) trouble(event int, all ...trouble) {
	w.network.begin(event, all...)
	w.disturbed(all)
}

func (w *World) heal(event int) {
	all := w.network.troubles[event]
	w.network.end(event)
	w.disturbed(all)
}

// disturbed notes which hosts were troubled, and which nodes clients may lose their
// streams to though these run.
func (w *World) disturbed(all []trouble) {
	for _, t := range all {
		w.judge.part(t.from, t.to)
		switch {
		case t.from == clientsHost:
			w.judge.slowed[t.to] = time.Now()
		case t.to == clientsHost:
			w.judge.slowed[t.from] = time.Now()
		case t.Stalled && t.from == originHost:
			w.judge.stalled[t.to] = time.Now()
		case t.Stalled && t.to == originHost:
			w.judge.stalled[t.from] = time.Now()
		}
	}
	for _, n := range w.nodes {
		if off := !w.network.fine(n.name, clientsHost); n.relay != nil && off != n.cutOff {
			n.cutOff = off
			kind := record.NodeUp
			if off {
				kind = record.NodeDown
			}
			w.to.Add(record.Event{Kind: kind, Node: n.name, Why: cutOffWhy})
		}
	}
}

// cutOffWhy is why a node is said to be down that runs.
const cutOffWhy = "network of its clients"

// percent decides by chance.
func (w *World) percent(p int) func() bool {
	return func() bool { return w.random.IntN(100) < p }
}

func (w *World) originDown(event int) {
	w.originBy[event] = true
	w.origin.Stop()
}

func (w *World) originUp(event int) {
	if delete(w.originBy, event); len(w.originBy) > 0 {
		return
	}
	for _, h := range w.judge.histories {
		h.show()
	}
	if err := w.origin.Start(); err != nil {
		w.t.Fatalf("%v", err)
	}
}

// ending notes a relay that will have ended by the end of the run.
func (w *World) ending(node string, done <-chan error) { w.ends = append(w.ends, ending{node, done}) }

// draining reports whether a relay has been told to end and has not.
func (w *World) draining() bool {
	for i, e := range w.ends {
		if e.done == nil {
			continue
		}
		select {
		case err := <-e.done:
			if err != nil {
				w.t.Errorf("node %s ended with %v", e.node, err)
			}
			w.ends[i].done = nil
		default:
			return true
		}
	}
	return false
}

// later does something after a time.
func (w *World) later(d time.Duration, do func()) {
	at := time.Now().Add(d)
	i, _ := slices.BinarySearchFunc(w.agenda, at, func(i item, at time.Time) int {
		if i.at.After(at) {
			return 1
		}
		return -1 // behind those of the same time
	})
	w.agenda = slices.Insert(w.agenda, i, item{at, do})
}

// tick is how often the judge looks at the world.
const tick = 500 * time.Millisecond

// sleep lets time pass, in which what is on the agenda happens.
func (w *World) sleep(d time.Duration) {
	for end := time.Now().Add(d); ; {
		w.observe()
		now := time.Now()
		for len(w.agenda) > 0 && !w.agenda[0].at.After(now) {
			do := w.agenda[0].do
			w.agenda = w.agenda[1:]
			do()
		}
		if !now.Before(end) || len(w.found) > 0 {
			return
		}
		next := min(end.Sub(now), tick)
		if len(w.agenda) > 0 {
			next = min(next, w.agenda[0].at.Sub(now))
		}
		time.Sleep(next) //nolint:forbidigo // virtual time
	}
}

// observe judges what was recorded since the last time, and how the world is now.
func (w *World) observe() {
	events := w.to.Take()
	for i := range events {
		w.found = append(w.found, w.clocks.observe(&events[i])...)
		// The suite first: what it finds is excused by what clients had before.
		w.found = append(w.found, slices.DeleteFunc(w.suite.Observe(&events[i]), w.judge.excuses)...)
		w.found = append(w.found, w.judge.observe(&events[i])...)
		if w.cfg.Log != nil {
			fmt.Fprintln(w.cfg.Log, &events[i])
		}
	}
	w.found = append(w.found, w.judge.look()...)
	w.clocks.look()
	w.recent = append(w.recent, events...)
	if over := len(w.recent) - keepRecent; over > 0 {
		w.recent = append(w.recent[:0], w.recent[over:]...)
	}
}

// keepRecent is how many events are kept to explain a failure.
const keepRecent = 20_000

// patience is how long all may take to come to rest: longer than any time of the product
// that ends by itself.
const patience = 4 * time.Minute

// rest waits until all is at rest, and judges that.
func (w *World) rest() {
	const looks = 4
	for good, deadline := 0, time.Now().Add(patience); ; {
		w.sleep(tick)
		if len(w.found) > 0 {
			return
		}
		if good++; len(w.suite.Unsettled()) > 0 || w.draining() {
			good = 0
		}
		if good >= looks && w.to.AddNext(record.Event{Kind: record.Rest}) {
			break
		}
		if time.Now().After(deadline) {
			w.logRollouts()
			w.to.Add(record.Event{Kind: record.Rest, Why: "waited for in vain"})
			break
		}
	}
	w.observe()
	w.rested++
	if len(w.found) == 0 {
		w.judge.atRest()
	}
}

// contradict notes what no validator can see in a recording.
func (w *World) contradict(guarantee, text string) {
	w.found = append(w.found, check.Contradiction{Guarantee: guarantee, Text: text, Event: record.Event{At: w.to.Since()}})
}

// explain is the recent past of what an event is about.
func (w *World) explain(c check.Contradiction, most int) string {
	var lines []string
	for i := len(w.recent) - 1; i >= 0 && len(lines) < most; i-- {
		e := &w.recent[i]
		if e.Client != "" && e.Client != c.Event.Client || e.Key != "" && c.Event.Key != "" && e.Key != c.Event.Key {
			continue
		}
		lines = append(lines, e.String())
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}
