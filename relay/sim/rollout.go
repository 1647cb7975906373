package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/rollouts"
	"xdsrelay/relay/xdsclient"
	"xdsrelay/relay/xdstest"
)

// Times of the policy of all keys. They are short, so that a plan has many rollouts, and end.
const (
	stepBake  = 5 * time.Second
	finalBake = 5 * time.Second
	// answersWithin is how long a canary may take to answer.
	answersWithin = 4 * time.Second
)

// stage gives all keys a rollout policy.
func stage(cfg *config.Config) {
	policy := config.DefaultRolloutPolicy()
	policy.Name = "staged"
	policy.Steps = []config.RolloutStep{{Share: 0.5, Bake: stepBake}}
	policy.FinalBake, policy.Canaries.Small, policy.Canaries.Spread = finalBake, 0, ""
	policy.FailIf.Unanswered.Within = answersWithin
	cfg.Rollout.Policies = []config.RolloutPolicy{policy}
	cfg.Rollout.Breaker.Failures = 100 // in a plan all changes may be bad
	cfg.Aggregation.Rules = []aggregation.Rule{{Name: "all", Key: "node.cluster", Rollout: policy.Name}}
}

// addRollouts adds rollout policies to a plan, and changes that clients reject.
func (p *Plan) addRollouts(r *rand.Rand) {
	p.Rollouts = true
	if p.Kept == "none" {
		p.Kept = keeps[1+r.IntN(2)]
	}
	for range 1 + r.IntN(5) {
		at := 5*time.Second + round(rand64(r, p.Length*3/4))
		if n := len(p.Events); n > 0 && r.IntN(2) == 0 { // at about the time of another event
			at = max(5*time.Second, p.Events[r.IntN(n)].At+round(rand64(r, 4*time.Second))-2*time.Second)
		}
		p.add(at, 10*time.Second+duration(r), "cp-bad", aKey(p.Setup, r)...)
	}
	for _, e := range p.Events {
		p.Length = max(p.Length, e.End())
	}
}

// bad is content that clients reject: by serial, the number of the event that made it.
type bad struct {
	mu     sync.Mutex
	events map[int]int    // guarded by mu
	key    map[int]string // by number of the event; the world's
	ended  map[int]bool   // by number of the event; the world's
}

// by returns the event that has made a bad serial.
func (b *bad) by(serial int) (event int, is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	event, is = b.events[serial]
	return event, is
}

func (b *bad) addLocked(event int, key string, serials []int) {
	if b.events == nil {
		b.events, b.key, b.ended = make(map[int]int), make(map[int]string), make(map[int]bool)
	}
	b.key[event] = key
	for _, serial := range serials {
		b.events[serial] = event
	}
}

// staged are the types of the control plane that a policy holds back by default.
var staged = []string{xdstest.ClusterType, xdstest.ListenerType, xdstest.RouteType}

// badOrigin gives resources of a key content that clients reject. They have existed since the beginning:
// what is asked for by name and did not exist before reaches all clients at once, by design.
func badOrigin(w *World, number int, e Event) {
	w.bad.mu.Lock()
	defer w.bad.mu.Unlock() // no client gets it before it is known to be bad
	left := 1 + w.random.IntN(3)
	skip := w.random.IntN(4)
	serials := w.origin.Replace(e.arg(0), func(typeURL, name string, _ int) bool {
		h := w.judge.histories[resourceID{e.arg(0), typeURL, name}]
		if left == 0 || !slices.Contains(staged, typeURL) || h == nil || slices.Contains(h.serials[1:], absent) {
			return false
		}
		if skip > 0 {
			skip--
			return false
		}
		left--
		return true
	})
	w.bad.addLocked(number, e.arg(0), serials)
}

// fixOrigin replaces the content that an event has made bad.
func fixOrigin(w *World, number int, _ Event) {
	if w.bad.ended != nil {
		w.bad.ended[number] = true
	}
	w.fixBad()
}

// fixBad replaces bad content of events that are over, also where another event has brought it back.
func (w *World) fixBad() {
	for number := range w.bad.ended {
		w.origin.Replace(w.bad.key[number], func(_, _ string, serial int) bool {
			event, is := w.bad.by(serial)
			return is && event == number
		})
	}
}

// reject is what a client says of a resource.
func (c *client) reject(_ string, r xdsclient.Resource) string {
	_, serial, _ := record.ReadStamp(r.Body.GetValue())
	if _, is := c.fleet.world.bad.by(serial); is {
		return "unknown field " + r.Name
	}
	return ""
}

// accepted returns the resources of a response as the client has them after it, and records those that it
// rejects.
func (c *client) accepted(e xdstest.AutoEvent, all []record.Resource) []record.Resource {
	if !c.fleet.world.plan.Rollouts {
		return all
	}
	if c.has == nil {
		c.has = make(map[resourceID]record.Resource)
	}
	var out, rejected []record.Resource
	for _, r := range all {
		id := resourceID{c.key, e.Frame.TypeURL, r.Name}
		if _, is := c.fleet.world.bad.by(r.Serial); !is {
			c.has[id] = r
			out = append(out, r)
			continue
		}
		rejected = append(rejected, r)
		// A set of all resources has it as it was.
		if was, has := c.has[id]; has && !e.Frame.Delta && xdstest.FullState(e.Frame.TypeURL) {
			out = append(out, was)
		}
	}
	if !e.Frame.Delta && xdstest.FullState(e.Frame.TypeURL) {
		maps.DeleteFunc(c.has, func(id resourceID, _ record.Resource) bool {
			return id.typeURL == e.Frame.TypeURL && !slices.ContainsFunc(all, func(r record.Resource) bool { return r.Name == id.name })
		})
	}
	for _, name := range e.Frame.Removed {
		delete(c.has, resourceID{c.key, e.Frame.TypeURL, name})
	}
	if len(rejected) > 0 {
		c.fleet.world.to.Add(record.Event{
			Kind: record.ClientRejected, Client: c.name, Key: c.key, Stream: c.stream, Node: c.fleet.nameOf(e.Addr),
			Type: e.Frame.TypeURL, Delta: e.Frame.Delta, Resources: rejected,
		})
	}
	return out
}

// retryHeld lets an operator release what rollouts have held back without reason, until nothing is held:
// clients had left, or their answers were late, since their network was slow. Nothing bad is left when it
// is called. A key whose clients are about to return has no rollout yet, and its record may be that one is held.
func (w *World) retryHeld() {
	if !w.plan.Rollouts {
		return
	}
	for end := time.Now().Add(patience); time.Now().Before(end) && len(w.found) == 0; w.sleep(stepBake) {
		if held := w.heldKeys(); len(held) == 0 {
			return
		}
	}
}

// heldKeys retries what is held, and returns the keys, and those of which that is not known.
func (w *World) heldKeys() (held []string) {
	n := w.nodes[0]
	for i := range w.plan.Keys {
		key := keyName(i)
		var page ops.Rollout
		if !slices.ContainsFunc(w.fleet.clients, func(c *client) bool { return c.key == key }) {
			continue
		}
		known := w.get(n, "/api/v1/rollout?key="+key, &page) == nil && len(page.Keys) > 0 && page.Keys[0].Rollout != nil && page.Keys[0].Rollout.Role == rollouts.Deciding.String()
		if known && page.Keys[0].Rollout.State != rollout.Held.String() {
			continue
		}
		if held = append(held, key); !known {
			continue
		}
		_, _ = w.call(n, http.MethodPost, "/rollout/retry?key="+key) // it is asked again what is held
	}
	return held
}

// logRollouts logs how far the rollouts of all keys are.
func (w *World) logRollouts() {
	if w.cfg.Log == nil || !w.plan.Rollouts {
		return
	}
	for i := range w.plan.Keys {
		text, err := w.call(w.nodes[0], http.MethodGet, "/api/v1/rollout?key="+keyName(i))
		fmt.Fprintf(w.cfg.Log, "rollout of %s: %s %v\n", keyName(i), text, err)
	}
}
