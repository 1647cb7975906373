package robust

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"xdsrelay/relay/robust/origin"
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
	bad   bool // clients reject it
	above int
	since map[string]bool // clients that have got something of it
	// byType are those clients by type URL: where no client sees all types, there are several scouts.
	byType map[string]map[string]bool
	// replaced counts those of them whose streams have ended: others may take their place.
	replaced int
	// dropped are the streams that other nodes than faulty have ended.
	dropped []string
	faulty  []string // the nodes whose processes do not run, or have not run
}

func newExposed(key string, bad bool, above int) *exposed {
	return &exposed{key: key, bad: bad, above: above, since: make(map[string]bool), byType: make(map[string]map[string]bool)}
}

// observe takes the next event.
func (x *exposed) observe(e *record.Event) {
	switch {
	case e.Key != x.key:
	case e.Kind == record.ClientGot && isStaged(e.Type):
		if slices.ContainsFunc(e.Resources, func(r record.Resource) bool { return r.Serial > x.above }) {
			x.got(e)
		}
	case e.Kind == record.ClientEnd:
		if x.since[e.Client] {
			x.replaced++
		}
		if !e.Own && !slices.Contains(x.faulty, e.Node) {
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
	x := w.revise(key, c.bad)
	is, most := w.released(x, []*exposed{x})
	owner := w.nodes[slices.IndexFunc(w.nodes, func(n *Node) bool { return n.name == is.Node })]
	f := faults[slices.IndexFunc(faults[:], func(f fault) bool { return f.name == c.fault })]
	if f.area == processArea {
		x.faulty = []string{owner.name}
	}
	f.begin(w, owner)
	w.wait(w.cfg.Lease+2*time.Second, x) // another node owns the key by then, where the owner is away
	f.heal(w, owner)
	w.wait(2*time.Second, x)
	wrong = x.wrong(most)
	w.takeBack(before, x)
	w.logf("%s, %s: %d of %d clients may have the revision, %d had it, %d of these lost their streams", c.fault, is.State, most, is.Affected, len(x.since), x.replaced)
	return wrong
}

// revise makes the control plane change all clusters and listeners of a key. Clients reject them if they are
// bad.
func (w *World) revise(key string, bad bool) *exposed {
	x := newExposed(key, bad, w.origin.Serial())
	if bad {
		w.fleet.reject(key, x.above)
	}
	w.origin.Replace(key, func(typeURL, _ string, _ int) bool { return isStaged(typeURL) })
	return x
}

// released waits until all clients have the revision that may have it at first: the scout, which rejects it
// if it is bad, or the canaries of the step. It returns how many may.
func (w *World) released(x *exposed, all []*exposed) (is rolloutStatus, most int) {
	w.t.Helper()
	state, most := "Stepping Bake", 1
	if x.bad {
		state = "Held"
	}
	w.until("the rollout of "+x.key+" to be "+state, all, func() bool {
		is = w.rollout(x.key)
		return is.State == state
	})
	if !x.bad {
		w.until("all canaries of "+x.key+" to have the revision, but for those that are lost", all, func() bool { return len(x.since)+w.rollout(x.key).lostWithout(x) >= is.Canaries })
		most = is.Canaries
	}
	return is, most
}

// got notes that a client has got something of the revision.
func (x *exposed) got(e *record.Event) {
	x.since[e.Client] = true
	if x.byType[e.Type] == nil {
		x.byType[e.Type] = make(map[string]bool)
	}
	x.byType[e.Type][e.Client] = true
}

// wrong is what a tier did wrong, if so many clients may have the revision: where clients reject it, so
// many scouts of each type.
func (x *exposed) wrong(most int) (wrong []string) {
	n := len(x.since)
	if x.bad {
		n = 0
		for _, clients := range x.byType {
			n = max(n, len(clients))
		}
	}
	if n > most+x.replaced {
		wrong = append(wrong, fmt.Sprintf("%s: %d clients have got the revision, and %d may; %d of those have lost their streams", x.key, n, most, x.replaced))
	}
	for _, d := range x.dropped {
		wrong = append(wrong, x.key+": a stream ended: "+d)
	}
	return wrong
}

// takeBack makes the control plane return to what it had, and waits until all clients have that.
func (w *World) takeBack(before map[string]origin.Set, all ...*exposed) {
	w.t.Helper()
	for _, x := range all {
		w.fleet.reject(x.key, 0)
	}
	w.origin.Restore(before)
	w.until("all clients to have what the control plane has", all, func() bool { return len(w.suite.Unconverged()) == 0 })
}

// until waits for a condition.
func (w *World) until(what string, all []*exposed, is func() bool) {
	w.t.Helper()
	until(w.t, what, func() bool {
		w.exposes(all...)
		return is()
	})
}

// wait lets time pass.
func (w *World) wait(d time.Duration, all ...*exposed) {
	<-time.After(d)
	w.exposes(all...)
}

// exposes takes the events since the last time. The validators of recordings know no rollouts, so only what
// clients have counts of what they find.
func (w *World) exposes(all ...*exposed) {
	events := w.to.Take()
	if err := w.file.Write(events); err != nil {
		w.t.Errorf("%v", err)
	}
	for i := range events {
		w.suite.Observe(&events[i])
		for _, x := range all {
			x.observe(&events[i])
		}
	}
}

// rolloutStatus is what a tier says about the rollout of a key.
type rolloutStatus struct {
	Node               string // that decides
	State              string
	Canaries, Affected int
	Lost               []struct{ Client string }
}

// lostWithout counts the canaries that have lost their streams, and have got nothing of the revision: they moved when
// it was about to be sent, and get it when it is good.
func (s rolloutStatus) lostWithout(x *exposed) (n int) {
	for _, c := range s.Lost {
		if !x.since[c.Client] {
			n++
		}
	}
	return n
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
