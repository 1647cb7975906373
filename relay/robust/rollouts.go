package robust

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// rolloutConfig is the policy of all keys. Its step ends only if it fails, or the control plane takes the
// revision back.
const rolloutConfig = `aggregation:
  rules: [{name: all, key: node.cluster, rollout: staged}]
rollout:
  budget: ["100%"]
  breaker: {failures: 100}
  policies:
    - name: staged
      canaries: {small: 0, spread: ""}
      fail_if: {lost: {clients: 0}, unanswered: {clients: 0}}
      steps: [{share: 25%, bake: 1h}]
`

// isStaged reports whether a type is one that the tests of rollouts change.
func isStaged(typeURL string) bool {
	return typeURL == xdstest.ClusterType || typeURL == xdstest.ListenerType
}

// rolloutCase is a fault during a rollout.
type rolloutCase struct {
	fault string // of faults
	// bad says that the clients reject the revision, so that it is refused before the fault; otherwise canaries
	// have it, in a step.
	bad bool
}

// exposed is what clients of a key have got of a revision: of content with higher serials than before.
type exposed struct {
	key   string
	above int
	since map[string]bool // clients that have got something of it
	// replaced counts those of them whose streams have ended: others may take their place.
	replaced int
	// dropped are the streams that other nodes than faulty have ended.
	dropped []string
	faulty  string // the node whose process does not run; empty for none
}

// observe takes the next event.
func (x *exposed) observe(e *record.Event) {
	switch {
	case e.Key != x.key:
	case e.Kind == record.ClientGot && isStaged(e.Type):
		if slices.ContainsFunc(e.Resources, func(r record.Resource) bool { return r.Serial > x.above }) {
			x.since[e.Client] = true
		}
	case e.Kind == record.ClientEnd:
		if x.since[e.Client] {
			x.replaced++
		}
		if !e.Own && e.Node != x.faulty {
			x.dropped = append(x.dropped, fmt.Sprintf("%s at %s: %s", e.Client, e.Node, e.Why))
		}
	}
}

// Rollout takes a tier through a fault during a rollout, and reports what it did wrong: whether more clients
// have got the revision than may, or nodes without a fault have ended streams. At the end the control plane
// takes the revision back, and all clients have what it has.
func (w *World) Rollout(key string, c rolloutCase) (wrong []string) {
	w.t.Helper()
	before := w.origin.Snapshot()
	x := &exposed{key: key, above: w.origin.Serial(), since: make(map[string]bool)}
	state := "Stepping Bake"
	if c.bad {
		w.fleet.rejects.Store(int64(x.above))
		state = "Held"
	}
	w.origin.Replace(key, func(typeURL, _ string, _ int) bool { return isStaged(typeURL) })
	var is rolloutStatus
	w.until("the rollout to be "+state, x, func() bool {
		is = w.rollout(key)
		return is.State == state
	})
	most := 1 // the scout, which has rejected it
	if !c.bad {
		w.until("all canaries to have the revision", x, func() bool { return len(x.since) >= is.Canaries })
		most = is.Canaries
	}
	owner := w.nodes[slices.IndexFunc(w.nodes, func(n *Node) bool { return n.name == is.Node })]
	f := faults[slices.IndexFunc(faults[:], func(f fault) bool { return f.name == c.fault })]
	if f.area == processArea {
		x.faulty = owner.name
	}
	f.begin(w, owner)
	w.wait(w.cfg.Lease+2*time.Second, x) // another node owns the key by then, where the owner is away
	f.heal(w, owner)
	w.wait(2*time.Second, x)
	if n := len(x.since); n > most+x.replaced {
		wrong = append(wrong, fmt.Sprintf("%d clients have got the revision, and %d may; %d of those have lost their streams", n, most, x.replaced))
	}
	for _, d := range x.dropped {
		wrong = append(wrong, "a stream ended: "+d)
	}
	w.fleet.rejects.Store(0)
	w.origin.Restore(before)
	w.until("all clients to have what the control plane has", x, func() bool { return len(w.suite.Unconverged()) == 0 })
	w.logf("%s, %s: %d of %d clients may have the revision, %d had it, %d of these lost their streams", c.fault, state, most, is.Affected, len(x.since), x.replaced)
	return wrong
}

// until waits for a condition.
func (w *World) until(what string, x *exposed, is func() bool) {
	w.t.Helper()
	until(w.t, what, func() bool {
		w.exposes(x)
		return is()
	})
}

// wait lets time pass.
func (w *World) wait(d time.Duration, x *exposed) {
	<-time.After(d)
	w.exposes(x)
}

// exposes takes the events since the last time. The validators of recordings know no rollouts, so only what
// clients have counts of what they find.
func (w *World) exposes(x *exposed) {
	events := w.to.Take()
	if err := w.file.Write(events); err != nil {
		w.t.Errorf("%v", err)
	}
	for i := range events {
		w.suite.Observe(&events[i])
		x.observe(&events[i])
	}
}

// rolloutStatus is what a tier says about the rollout of a key.
type rolloutStatus struct {
	Node               string // that decides
	State              string
	Canaries, Affected int
}

// rollout asks the tier about the rollout of a key; the zero value while no node answers.
func (w *World) rollout(key string) (s rolloutStatus) {
	var answer struct {
		Node string
		Keys []struct{ Rollout rolloutStatus }
	}
	for _, n := range w.nodes {
		text, err := n.get(context.Background(), "/api/v1/rollout?key="+url.QueryEscape(key))
		if err == nil && json.Unmarshal([]byte(text), &answer) == nil && len(answer.Keys) == 1 && answer.Keys[0].Rollout.State != "" {
			s = answer.Keys[0].Rollout
			s.Node = answer.Node
			return s
		}
	}
	return s
}
