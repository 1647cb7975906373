package upstream

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"xdsrelay/relay/xdstest"
	"xdsrelay/relay/xdstest/property"
)

// TestConvergenceWithGoControlPlane: whatever clients subscribe to, unsubscribe from and subscribe
// to again, however they connect and disconnect, and whatever of that crosses the responses: at the
// end every client has all resources of its subscription that a go-control-plane server has (C9,
// C10).
func TestConvergenceWithGoControlPlane(t *testing.T) {
	for cache, linear := range map[string]bool{"snapshot": false, "linear": true} {
		t.Run(cache, func(t *testing.T) {
			variants(t, func(t *testing.T, delta bool) {
				property.Check(t, func(t *rapid.T) { convergeWithGCP(t, linear, delta) })
			})
		})
	}
}

func convergeWithGCP(t *rapid.T, linear, delta bool) {
	var cp *xdstest.ControlPlane
	if linear {
		cp = memory.NewLinearControlPlane(t)
	} else {
		cp = memory.NewLenientControlPlane(t, nil)
	}
	state := map[string]proto.Message{"e": endpoints("e", 1)}
	salt := 1
	set := func(names ...string) {
		salt++
		for _, n := range names {
			state[n] = cluster(n, salt)
		}
		if linear {
			for _, n := range names {
				cp.SetLinear(t, state[n])
			}
			return
		}
		cp.SetSnapshot(t, "k", fmt.Sprint(salt), slices.Collect(maps.Values(state))...)
	}
	if linear {
		cp.SetLinear(t, state["e"])
	}
	set("a", "b", "c")
	net := memory.NewNetwork(t, cp.Addr())
	net.Delay(rapid.SampledFrom([]time.Duration{0, time.Millisecond, 2 * time.Millisecond}).Draw(t, "delay"))
	cfg := fast(delta, net.Addr())
	cfg.AbsentAfter = 50 * time.Millisecond
	upstream, err := NewControlPlane(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	r := newRigOf(t, upstream, rapid.SampledFrom([]time.Duration{-1, time.Millisecond, 3 * time.Millisecond}).Draw(t, "linger"))
	clients := []*client{r.join("k"), r.join("k")}
	if rapid.Bool().Draw(t, "one stays") {
		r.join("k").want(eds, "e")
	}
	names := []string{"*", "a", "b", "c", "d"}
	if !linear && !delta {
		names = names[1:] // see "star"
	}
	for range rapid.IntRange(3, 30).Draw(t, "steps") {
		i := rapid.IntRange(0, len(clients)-1).Draw(t, "client")
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID[string])
		switch rapid.IntRange(0, 8).Draw(t, "step") {
		case 0, 1:
			clients[i].want(cds, some.Draw(t, "names")...)
		case 2, 3:
			clients[i].drop(cds, some.Draw(t, "names")...)
		case 4:
			wanted := slices.Collect(maps.Keys(clients[i].wants[cds]))
			clients[i].leave()
			time.Sleep(time.Duration(rapid.IntRange(0, 8).Draw(t, "away")) * 500 * time.Microsecond) //nolint:forbidigo // virtual time
			clients[i] = r.join("k")
			if len(wanted) > 0 {
				clients[i].want(cds, wanted...)
			}
		case 5:
			set(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"))
		default:
			time.Sleep(time.Duration(rapid.IntRange(0, 8).Draw(t, "pause")) * 500 * time.Microsecond) //nolint:forbidigo // virtual time
		}
	}
	for i, c := range clients {
		want := map[string][]byte{}
		for n := range c.wants[cds] {
			for _, m := range []string{"a", "b", "c"} {
				if n == m || n == "*" {
					want[m] = xdstest.Any(state[m]).GetValue()
				}
			}
		}
		diff := ""
		func() {
			defer func() {
				if diff != "" {
					t.Logf("client %d wants %v: %s; it sees %q%s", i, slices.Sorted(maps.Keys(c.wants[cds])), diff, c.state(cds), cp.Transcript())
				}
			}()
			xdstest.Eventually(t, "convergence", func() bool {
				diff = difference(want, c.bodies(cds), false)
				return diff == ""
			})
		}()
	}
}
