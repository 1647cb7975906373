package relay_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"xdsrelay/relay/xdstest"
)

// pair is one client twice, with the same behaviour: connected to the control
// plane, and to the relay in front of it.
type pair struct {
	name            string
	origin          *testOrigin
	delta, away     bool
	wants           map[string]*wants // by type URL
	quirks          map[string]*quirks
	direct, relayed *xdstest.Auto
}

func newPair(t xdstest.TB, o *testOrigin, relay, name string, v xdstest.Variant, forgetful bool) *pair {
	client := func(addr, role string, reject func(string, xdstest.Resource) string) *xdstest.Auto {
		a := xdstest.StartAuto(t, xdstest.AutoConfig{
			Addr: addr, Variant: v, Node: xdstest.Node(name+"-"+role, differentialKey),
			Reject: reject, BeforeAck: o.hesitate, Forgetful: forgetful, Trusting: forgetful,
			DialOptions: []grpc.DialOption{o.network.Option()},
		})
		a.WaitFor(t, "a connection", a.Connected)
		return a
	}
	p := &pair{
		name: name, origin: o, delta: v.Delta, wants: map[string]*wants{}, quirks: map[string]*quirks{},
		direct: client(o.Addr(), "direct", o.rejects), relayed: client(relay, "relayed", o.lossy),
	}
	for _, u := range differentialTypes {
		p.wants[u] = &wants{names: map[string]bool{}}
		p.quirks[u] = &quirks{linear: o.linear, delta: v.Delta, legacy: xdstest.WildcardCapable(u), lost: map[string]bool{}}
	}
	return p
}

func (p *pair) both(f func(*xdstest.Auto)) {
	f(p.direct)
	f(p.relayed)
}

func (p *pair) subscribe(typeURL string, names ...string) {
	p.both(func(a *xdstest.Auto) { a.Subscribe(typeURL, names...) })
	p.wants[typeURL].add(names)
	p.quirks[typeURL].subscribed(p.wants[typeURL])
}

func (p *pair) unsubscribe(typeURL string, names ...string) {
	p.both(func(a *xdstest.Auto) { a.Unsubscribe(typeURL, names...) })
	p.wants[typeURL].drop(names)
	p.quirks[typeURL].unsubscribed(p.wants[typeURL])
}

// again does what makes the client open a new stream, and waits for that.
func (p *pair) again(t xdstest.TB, do func(*xdstest.Auto)) {
	p.both(func(a *xdstest.Auto) {
		before := a.Stats().Streams
		do(a)
		a.WaitFor(t, "a new stream", func() bool { return a.Stats().Streams > before && a.Connected() })
	})
	p.away = false
	p.newStream()
}

func (p *pair) leave(t xdstest.TB) {
	p.both(func(a *xdstest.Auto) {
		a.Disconnect()
		a.WaitFor(t, "the end of the stream", func() bool { return !a.Connected() })
	})
	p.away = true
}

// newStream notes that the client begins anew.
func (p *pair) newStream() {
	for u, q := range p.quirks {
		q.newStream(p.wants[u])
	}
}

// differences compares what both clients of a pair hold with what the origin
// has of what they want.
func (p *pair) differences() (all []string) {
	if p.away {
		return nil
	}
	for _, u := range differentialTypes {
		direct, relayed := p.direct.Held(u), p.relayed.Held(u)
		names := map[string]bool{}
		for _, m := range []map[string]xdstest.Held{direct, relayed} {
			for n := range m {
				names[n] = true
			}
		}
		for n := range p.origin.state[u] {
			names[n] = true
		}
		for _, n := range slices.Sorted(maps.Keys(names)) {
			d, r := p.judge(u, n, direct), p.judge(u, n, relayed)
			if d != right && p.quirks[u].explain(p.wants[u], n, d) != "" {
				d = right
			}
			if r == notGone && p.origin.untold(u, n) {
				r = right
			}
			if d != right || r != right {
				all = append(all, fmt.Sprintf("%s: %s %q is %s directly, %s through the relay", p.name, u[strings.LastIndex(u, ".")+1:], n, d, r))
			}
		}
	}
	return all
}

// What can be said of what a client holds under a name.
const (
	right      = "right"
	missing    = "missing"
	outdated   = "outdated"
	notGone    = "not gone"
	notDropped = "not dropped"
	forbidden  = "held though it was rejected"
)

// judge says what is wrong with what a client holds under a name.
func (p *pair) judge(typeURL, name string, held map[string]xdstest.Held) string {
	h, holds := held[name]
	has, exists := p.origin.state[typeURL][name]
	switch {
	case !p.wants[typeURL].covers(name):
		if holds {
			return notDropped
		}
	case !exists:
		// SotW cannot say that a resource of another type is gone (D6).
		if holds && (p.delta || xdstest.FullState(typeURL)) {
			return notGone
		}
	case has.bad:
		// Which good one was seen before, if any, is a matter of time.
		if string(h.Body) == has.body {
			return forbidden
		}
	case !holds:
		return missing
	case string(h.Body) != has.body:
		return outdated
	}
	return right
}

// settle waits until both clients of each pair hold what they must, except for
// known differences. It fails the test if they do not get there.
func settle(t xdstest.TB, pairs []*pair) {
	t.Helper()
	if err := settled(pairs, xdstest.Patience); err != nil {
		t.Fatalf("%v", err)
	}
}

func settled(pairs []*pair, patience time.Duration) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for {
		var wrong []string
		var who strings.Builder
		for _, p := range pairs {
			if d := p.differences(); len(d) > 0 {
				wrong = append(wrong, d...)
				fmt.Fprintf(&who, "\n%s\n%s", p.direct, p.relayed)
			}
		}
		if len(wrong) == 0 {
			return nil
		}
		select {
		case <-pause.C:
		case <-deadline.C:
			return fmt.Errorf("%s%s%s", strings.Join(wrong, "\n"), &who, pairs[0].origin.Transcript())
		}
	}
}
