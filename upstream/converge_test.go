package upstream

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/xdstest"
	"xdsrelay/relay/xdstest/property"
)

// pool is the set of names that the resources of the control plane and the subscriptions of clients
// are drawn from.
var pool = map[string][]string{
	cds: {"a", "b", "c", urn(cds, "g/x")}, eds: {"a", "b", "c", urn(eds, "g/x"), urn(eds, "g/y"), urn(eds, "g/h/x")}, lds: {"a", "b"},
}

// wishes is what a client may subscribe to: names, also in other spellings, the wildcard, and globs
// if the control plane supports them (D8).
func wishes(typeURL string, delta bool) []string {
	names := append([]string{"*", urn(typeURL, "%67/x")}, pool[typeURL]...)
	if delta {
		names = append(names, urn(typeURL, "g/*"), urn(typeURL, "g/h/*"))
	}
	return names
}

// draws makes a rapid.T a source of numbers.
type draws struct{ t *rapid.T }

func (d draws) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "n") }

// TestConvergence: whatever the control plane does, whatever clients subscribe to, connect and
// disconnect, and however the network fails: at the end every client has exactly the resources of
// its subscription that the control plane has.
func TestConvergence(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		property.Check(t, func(t *rapid.T) { converge(t, delta) })
	})
}

func converge(t *rapid.T, delta bool) {
	origin := memory.NewStateOrigin(t, nil)
	net := memory.NewNetwork(t, origin.Addr())
	cfg := fast(delta, net.Addr())
	cfg.AbsentAfter = 30 * time.Millisecond // too short on a slow network, which must have no lasting effect (D5)
	net.Delay(rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond}).Draw(t, "delay"))
	cp, err := NewControlPlane(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	r := newRigOf(t, cp, rapid.SampledFrom([]time.Duration{-1, time.Minute}).Draw(t, "linger"))
	clients := make([]*client, 4)
	key := func(i int) string { return fmt.Sprintf("key-%d", i/2) }
	for i := range clients {
		clients[i] = r.join(key(i))
	}
	origin.Mutate("", draws{t}, pool)
	for range rapid.IntRange(3, 30).Draw(t, "steps") {
		i := rapid.IntRange(0, len(clients)-1).Draw(t, "client")
		switch rapid.IntRange(0, 12).Draw(t, "step") {
		case 0, 1, 2, 3:
			origin.Mutate("", draws{t}, pool)
		case 4, 5, 6, 7:
			typeURL := rapid.SampledFrom([]string{cds, eds, lds}).Draw(t, "type")
			name := rapid.SampledFrom(wishes(typeURL, delta)).Draw(t, "name")
			if rapid.IntRange(0, 2).Draw(t, "drop") == 0 {
				clients[i].drop(typeURL, name)
			} else {
				clients[i].want(typeURL, name)
			}
		case 8:
			clients[i].leave()
			clients[i] = r.join(key(i))
		case 9:
			net.Cut()
		case 10:
			net.Refuse()
			net.Cut()
			origin.Mutate("", draws{t}, pool)
			if err := net.Accept(); err != nil {
				t.Fatalf("%v", err)
			}
		default:
			time.Sleep(time.Duration(rapid.SampledFrom([]int64{5, 15, 35, 100}).Draw(t, "pause")) * time.Millisecond) //nolint:forbidigo // virtual time
		}
	}
	for i, c := range clients {
		for typeURL, names := range c.wants {
			if len(names) > 0 {
				check(t, origin, i, c, typeURL, slices.Sorted(maps.Keys(names)))
			}
		}
	}
	if n := origin.Counts().Nacks; n != 0 {
		t.Fatalf("%d NACKs%s", n, origin.Transcript())
	}
}

// check waits until a client has what it must have.
func check(t *rapid.T, o *xdstest.StateOrigin, i int, c *client, typeURL string, names []string) {
	removals := c.rig.cp.cfg.Delta || xdstest.FullState(typeURL)
	diff := ""
	defer func() {
		if diff != "" {
			t.Logf("client %d wants %v of %s: %s; it sees %q%s", i, names, typeURL, diff, c.state(typeURL), o.Transcript())
		}
	}()
	xdstest.Eventually(t, "convergence", func() bool {
		diff = difference(o.Expected("", typeURL, names...), c.bodies(typeURL), removals)
		return diff == ""
	})
}

// difference describes how got differs from want. If the protocol cannot express removals, removed
// resources may remain (D4).
func difference(want, got map[string][]byte, removals bool) string {
	for n, body := range want {
		switch b, ok := got[n]; {
		case !ok:
			return n + " is missing"
		case !bytes.HasSuffix(b, body): // got is the Any, want its value
			return n + " is another version"
		}
	}
	for n := range got {
		if _, ok := want[n]; !ok && removals {
			return n + " should be gone"
		}
	}
	return ""
}
