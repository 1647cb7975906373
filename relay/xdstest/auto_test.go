package xdstest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"xdsrelay/relay/xdsclient"
)

// universe is a small set of names of types of each kind, so that random
// actions meet.
var universe = map[string][]string{
	ClusterType:     {"c1", "c2", "c3"},
	ListenerType:    {"l1", "l2"},
	EndpointType:    {"e1", "e2", "e3"},
	RouteType:       {"r1", "r2"},
	VirtualHostType: {"r1/h1", "r1/h2"},
}

func universeOf(v Variant) map[string][]string {
	out := make(map[string][]string)
	for typeURL, names := range universe {
		if (v.Service == "" || v.Service == typeURL) && (v.Delta || typeURL != VirtualHostType) {
			out[typeURL] = names
		}
	}
	return out
}

func allVariants() []Variant {
	return append(Variants(ClusterType), Variants(EndpointType)[2:]...)
}

// TestConvergence: whatever the world and the clients do, at the end each
// client holds exactly what the origin serves it, and no rule was broken on the
// way. It holds origin, client and oracle against each other.
func TestConvergence(t *testing.T) {
	for _, v := range allVariants() {
		t.Run(v.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { converge(t, v) })
		})
	}
}

func converge(t *rapid.T, v Variant) {
	o := NewStateOrigin(t, (*corev3.Node).GetCluster)
	net := NewNetwork(t, o.Addr())
	names := universeOf(v)
	var types []string
	for u := range names {
		types = append(types, u)
	}
	types = xdsclient.InPushOrder(types)
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	subset := func(typeURL string) []string {
		all := append([]string{Wildcard}, names[typeURL]...)
		return rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 2, rapid.ID[string]).Draw(t, "names")
	}
	a := StartAuto(t, AutoConfig{Addr: net.Addr(), Variant: v, Node: Node("n", "mine")})
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		typeURL := rapid.SampledFrom(types).Draw(t, "type")
		switch rapid.IntRange(0, 9).Draw(t, "action") {
		case 0, 1, 2:
			o.Mutate("mine", random, names)
		case 3:
			o.Mutate("others", random, names)
		case 4, 5:
			if n := subset(typeURL); len(n) > 0 || WildcardCapable(typeURL) {
				a.Subscribe(typeURL, n...)
			}
		case 6:
			a.Unsubscribe(typeURL, subset(typeURL)...)
		case 7:
			a.Reconnect()
		case 8:
			net.Cut()
		case 9:
			o.WaitConverged(t, "mine", a)
		}
	}
	o.WaitConverged(t, "mine", a)
	a.CheckViolations(t)
	a.Close()
	net.Close()
	o.Stop()
}

// TestNacksAreHeld: a client that rejects once gets no more until something
// changes, and then all it had rejected (B14, B16).
func TestNacksAreHeld(t *testing.T) {
	for _, v := range []Variant{SotW, Delta} {
		t.Run(v.String(), func(t *testing.T) {
			o := NewStateOrigin(t, nil)
			o.Set("", Synthetic(ClusterType, "a", 1), Synthetic(ClusterType, "b", 1))
			bad := true
			a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: v, Nack: func(f *Frame) string {
				if bad {
					bad = false
					return "not today"
				}
				return ""
			}})
			a.Subscribe(ClusterType)
			a.WaitFor(t, "a NACK", func() bool { return a.Stats().Nacks == 1 && o.Counts().Nacks == 1 })
			if len(a.Held(ClusterType)) != 0 || o.Counts().Responses != 1 {
				t.Fatalf("after the NACK: %s", a)
			}
			o.Set("", Synthetic(ClusterType, "b", 2))
			o.WaitConverged(t, "", a)
			if o.Counts().Responses != 2 {
				t.Fatalf("after the change: %s", a)
			}
			a.CheckViolations(t)
		})
	}
}

// TestSlowAck: while the answer is held back nothing more comes, and the newest
// state comes after it (B9).
func TestSlowAck(t *testing.T) {
	for _, v := range []Variant{SotW, Delta} {
		t.Run(v.String(), func(t *testing.T) {
			o := NewStateOrigin(t, nil)
			release := make(chan struct{})
			a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: v, BeforeAck: func(ctx context.Context, _ *Frame) {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}})
			a.Subscribe(ClusterType)
			a.WaitFor(t, "a first frame", func() bool { return a.Stats().Frames == 1 })
			for salt := range 10 {
				o.Set("", Synthetic(ClusterType, "a", salt))
			}
			close(release)
			o.WaitConverged(t, "", a)
			if n := o.Counts().Responses; n != 2 {
				t.Fatalf("%d responses in all", n)
			}
		})
	}
}

// TestOffline: a client that stays away catches up when it comes back, with
// versions of what it holds (B37), also at another server.
func TestOffline(t *testing.T) {
	for _, v := range []Variant{SotW, Delta} {
		t.Run(v.String(), func(t *testing.T) {
			o, second := NewStateOrigin(t, nil), NewOrigin(t)
			o.Set("", Synthetic(ClusterType, "a", 1), Synthetic(ClusterType, "b", 1))
			a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: v})
			a.Subscribe(ClusterType)
			o.WaitConverged(t, "", a)
			a.Disconnect()
			a.WaitFor(t, "the stream to end", func() bool { return !a.Connected() })
			o.Remove("", ClusterType, "b")
			if len(o.Differences("", a)) != 1 {
				t.Fatalf("offline, yet it knows: %s", a)
			}
			a.Connect()
			o.WaitConverged(t, "", a)

			a.MoveTo(second.Addr())
			r := second.NextStream(t).NextRequest(t)
			if r.Nonce != "" || r.Node == nil {
				t.Fatalf("first request elsewhere: %s", r)
			}
			if v.Delta && (len(r.Initial) != 1 || r.Initial["a"] != "v1") || !v.Delta && r.Version != a.Version(ClusterType) {
				t.Fatalf("first request elsewhere: %s", r)
			}
			a.CheckViolations(t)
		})
	}
}

// TestAutoSeesViolations: each breach that the automatic client claims to see,
// it sees.
func TestAutoSeesViolations(t *testing.T) {
	body := Any(Synthetic(ClusterType, "a", 1))
	wrap := func(name string, body *anypb.Any) *discoveryv3.Resource {
		return &discoveryv3.Resource{Name: name, Version: "1", Resource: body}
	}
	for what, c := range map[string]struct {
		rule  string
		frame *discoveryv3.DeltaDiscoveryResponse
	}{
		"no nonce":     {"B5", &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType}},
		"nonce again":  {"B5", &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "first"}},
		"other type":   {"B4", &discoveryv3.DeltaDiscoveryResponse{TypeUrl: RouteType, Nonce: "x"}},
		"twice":        {"B29", &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "x", Resources: []*discoveryv3.Resource{wrap("a", body), wrap("a", body)}}},
		"and removed":  {"B29", &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "x", Resources: []*discoveryv3.Resource{wrap("a", body)}, RemovedResources: []string{"a"}}},
		"wrong body":   {"B30", &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "x", Resources: []*discoveryv3.Resource{wrap("a", Any(Route("a", "b")))}}},
		"not asked":    {"B31", &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "x", Resources: []*discoveryv3.Resource{wrap("z", body)}}},
		"without body": {"B34", &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "x", Resources: []*discoveryv3.Resource{wrap("a", nil)}}},
	} {
		t.Run(what, func(t *testing.T) {
			o := NewOrigin(t)
			a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: Delta})
			a.Subscribe(ClusterType, "a")
			st := o.NextStream(t)
			if err := st.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "first"}); err != nil {
				t.Fatal(err)
			}
			if err := st.Send(c.frame); err != nil {
				t.Fatal(err)
			}
			a.WaitFor(t, "both frames", func() bool { return a.Stats().Frames == 2 })
			if v := a.Violations(); len(v) != 1 || !strings.HasPrefix(v[0], c.rule+":") {
				t.Errorf("violations: %q", v)
			}
			if msg := mustFail(t, a.CheckViolations); !strings.Contains(msg, "conversation of") {
				t.Errorf("message: %s", msg)
			}
		})
	}
}

// TestDroppedNames: a resource that was on its way when it was dropped is no
// breach, one sent later is (B4).
func TestDroppedNames(t *testing.T) {
	o := NewOrigin(t)
	a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: SotW})
	a.Subscribe(EndpointType, "a")
	st := o.NextStream(t)
	st.NextRequest(t)
	a.Unsubscribe(EndpointType, "a")
	if r := st.NextRequest(t); len(r.Names) != 0 {
		t.Fatalf("request: %s", r)
	}
	st.Respond(t, EndpointType, "1", Synthetic(EndpointType, "a", 1))
	a.WaitFor(t, "a frame", func() bool { return a.Stats().Acks == 1 })
	a.CheckViolations(t)
	st.Respond(t, EndpointType, "2", Synthetic(EndpointType, "a", 2))
	st.Respond(t, EndpointType, "3", Synthetic(EndpointType, "a", 3))
	a.WaitFor(t, "two more frames", func() bool { return a.Stats().Acks == 3 })
	if len(a.Violations()) == 0 || len(a.Held(EndpointType)) != 0 {
		t.Errorf("late resources were taken: %s", a)
	}
}

// TestSotWMerge: what a response leaves out stays for a type without full
// state, and goes for one with it (B27, B32).
func TestSotWMerge(t *testing.T) {
	for typeURL, want := range map[string]string{EndpointType: "[a b]", ClusterType: "[a]"} {
		o := NewOrigin(t)
		a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: SotW})
		a.Subscribe(typeURL, "a", "b")
		st := o.NextStream(t)
		st.Respond(t, typeURL, "1", Synthetic(typeURL, "a", 1), Synthetic(typeURL, "b", 1))
		a.WaitHeld(t, typeURL, "a", "b")
		st.Respond(t, typeURL, "2", Synthetic(typeURL, "a", 2))
		a.WaitFor(t, "a second frame", func() bool { return a.Stats().Acks == 2 })
		held := a.Held(typeURL)
		if got := xdsclient.Brief(slices.Sorted(maps.Keys(held))); got != want || held["a"].Version != "2" {
			t.Errorf("%s: holds %s, want %s", xdsclient.ShortType(typeURL), got, want)
		}
	}
}

// TestSotWLeavesWildcard: the legacy wildcard can be left only by way of a name
// (B20, B22).
func TestSotWLeavesWildcard(t *testing.T) {
	o := NewOrigin(t)
	a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: SotW})
	a.Subscribe(ClusterType)
	st := o.NextStream(t)
	st.Respond(t, ClusterType, "1", Synthetic(ClusterType, "a", 1))
	a.WaitHeld(t, ClusterType, "a")
	a.WaitFor(t, "the ACK", func() bool { return a.Stats().Acks == 1 })
	a.Unsubscribe(ClusterType)
	a.WaitHeld(t, ClusterType)
	a.Subscribe(ClusterType)
	for _, want := range []string{"[]", "[]", "[*]", "[]", "[*]"} { // first, ACK, and the two steps
		if r := st.NextRequest(t); xdsclient.Brief(r.Names) != want {
			t.Fatalf("request for %s, want %s%s", xdsclient.Brief(r.Names), want, o.Transcript())
		}
	}
}

// TestSotWComeback: what was dropped while a response was being answered, and is
// wanted again, the client has thrown away. The answer leaves it out, and a
// request after that asks for it (C9).
func TestSotWComeback(t *testing.T) {
	for typeURL, tests := range map[string][]struct{ first, drop, again, want string }{
		EndpointType: {
			{"a b", "b", "b", "[a b] [a] [a b]"},
			{"a b", "b", "", "[a b] [a]"},
			{"*", "*", "b", "[*] [] [b]"},
			{"*", "*", "*", "[*] [] [*]"},
		},
		ClusterType: {
			{"*", "*", "*", "[] [*] [] [*]"},
			{"*", "*", "b", "[] [*] [] [b]"},
		},
	} {
		for _, test := range tests {
			t.Run(fmt.Sprintf("%s %v", xdsclient.ShortType(typeURL), test), func(t *testing.T) {
				o := NewOrigin(t)
				received, answer := make(chan struct{}), make(chan struct{})
				a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: SotW, BeforeAck: func(context.Context, *Frame) {
					received <- struct{}{}
					<-answer
				}})
				a.Subscribe(typeURL, strings.Fields(test.first)...)
				st := o.NextStream(t)
				got := []string{xdsclient.Brief(st.NextRequest(t).Names)}
				st.Respond(t, typeURL, "1", Synthetic(typeURL, "a", 1), Synthetic(typeURL, "b", 1))
				<-received
				a.Unsubscribe(typeURL, test.drop)
				if test.again != "" {
					a.Subscribe(typeURL, test.again)
				}
				answer <- struct{}{}
				for range strings.Count(test.want, "[") - 1 {
					got = append(got, xdsclient.Brief(st.NextRequest(t).Names))
				}
				if strings.Join(got, " ") != test.want {
					t.Errorf("requests for %s, want %s", got, test.want)
				}
				st.Quiet(t, 20*time.Millisecond)
				a.CheckViolations(t)
			})
		}
	}
}
