package relay_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// testOrigin is a go-control-plane server and what it serves. It belongs to the
// test's goroutine, except for rejects.
type testOrigin struct {
	*xdstest.ControlPlane
	network  *xdstest.Memory
	linear   bool
	sotw     bool // the relay asks it so
	version  int
	state    map[string]map[string]served // by type URL and name
	badOnes  sync.Map                     // bodies that clients reject
	loses    atomic.Pointer[string]       // a name that is lost on the way through the relay
	crossing                              // with the relay's requests
}

// served is a resource as the origin has it.
type served struct {
	message proto.Message
	body    string
	bad     bool // every client rejects it
}

func newTestOrigin(t xdstest.TB, network *xdstest.Memory, linear, sotw bool) *testOrigin {
	o := &testOrigin{network: network, linear: linear, sotw: sotw, state: map[string]map[string]served{}, crossing: newCrossing()}
	for _, u := range differentialTypes {
		o.state[u] = map[string]served{}
	}
	if linear {
		o.ControlPlane = network.NewLinearControlPlane(t)
	} else {
		o.ControlPlane = network.NewLenientControlPlane(t, nil)
		o.publish(t)
	}
	o.OnRequest(o.request)
	return o
}

// canRemove: over SotW the relay cannot be told that a resource of a type
// without full state is gone (D4).
func (o *testOrigin) canRemove(typeURL string) bool { return !o.sotw || xdstest.FullState(typeURL) }

// takesNames and takesWildcard: a snapshot cache does not know "*" over SotW, so
// that a relay which asks it that way must not have to say it (see "star").
func (o *testOrigin) takesNames(typeURL string) bool {
	return o.linear || !o.sotw || !xdstest.WildcardCapable(typeURL)
}

func (o *testOrigin) takesWildcard(typeURL string) bool {
	return o.linear || !o.sotw || xdstest.WildcardCapable(typeURL)
}

// canRestart: a linear cache does not tell a SotW client that comes back, which
// the relay then is, that all it named is gone (see "gone-while-away").
func (o *testOrigin) canRestart() bool { return !o.linear || !o.sotw }

// rejects is what all clients say of a resource.
func (o *testOrigin) rejects(_ string, r xdstest.Resource) string {
	if _, bad := o.badOnes.Load(string(r.Body.GetValue())); bad {
		return "cannot be used"
	}
	return ""
}

// lossy is what clients of the relay say: the same, except for what is lost.
func (o *testOrigin) lossy(typeURL string, r xdstest.Resource) string {
	if lost := o.loses.Load(); lost != nil && r.Name == *lost {
		return "never came"
	}
	return o.rejects(typeURL, r)
}

// hesitate slows clients down, so that time goes on where go-control-plane answers
// each answer (see "star"), and more those that reject: it sends what was rejected
// again at once (O1).
func (o *testOrigin) hesitate(ctx context.Context, f *xdstest.Frame) {
	pause := 100 * time.Microsecond
	if len(f.Resources)+len(f.Removed) == 0 || slices.ContainsFunc(f.Resources, func(r xdstest.Resource) bool { return o.rejects(f.TypeURL, r) != "" }) {
		pause = 10 * time.Millisecond
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// change sets resources of a type to content made of salt and removes others.
func (o *testOrigin) change(t xdstest.TB, typeURL string, set, remove []string, salt int, bad bool) {
	o.prepare(t, typeURL, set, remove, salt, bad)()
}

// prepare is change, but the origin serves it only once the returned function is
// called.
func (o *testOrigin) prepare(t xdstest.TB, typeURL string, set, remove []string, salt int, bad bool) func() {
	var messages []proto.Message
	for _, n := range slices.Concat(set, remove) {
		o.changes(typeURL, n)
	}
	for _, n := range set {
		m := xdstest.Synthetic(typeURL, n, salt)
		s := served{message: m, body: string(xdstest.Any(m).GetValue()), bad: bad}
		if bad {
			o.badOnes.Store(s.body, true)
		}
		o.state[typeURL][n] = s
		messages = append(messages, m)
	}
	for _, n := range remove {
		delete(o.state[typeURL], n)
	}
	return func() {
		if !o.linear {
			o.publish(t)
			return
		}
		if len(messages) > 0 {
			o.SetLinear(t, messages...)
		}
		if len(remove) > 0 {
			o.RemoveLinear(t, typeURL, remove...)
		}
	}
}

// publish makes a new snapshot of all that there is.
func (o *testOrigin) publish(t xdstest.TB) {
	o.version++
	var all []proto.Message
	for _, u := range differentialTypes {
		for _, n := range slices.Sorted(maps.Keys(o.state[u])) {
			all = append(all, o.state[u][n].message)
		}
	}
	o.SetSnapshotOf(t, differentialTypes, differentialKey, strconv.Itoa(o.version), all...)
}
