package relay_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/relay/xdstest/property"
)

// differentialKey is the clients' node.cluster: their key, and that of the
// snapshot.
const differentialKey = "shop"

// differentialTypes are the types of the conversations, with the names that
// may exist of each.
var (
	differentialTypes = []string{xdstest.ClusterType, xdstest.EndpointType, xdstest.ListenerType, xdstest.RouteType, xdstest.SecretType}
	differentialNames = []string{"a", "b", "c", "d"}
)

// TestDifferential: clients hold the same after each step of a random
// conversation whether they are connected to a go-control-plane server or to a
// relay in front of it, except for what relay/conformance/differences.txt lists. All
// of it happens in virtual time, so that only what stays wrong counts, however busy
// the machine is; the ways take time, so that what is said there crosses.
func TestDifferential(t *testing.T) {
	for name, linear := range map[string]bool{"snapshot": false, "linear": true} {
		for _, variant := range []config.Variant{config.SotW, config.Delta} {
			t.Run(fmt.Sprintf("cache=%s/origin=%s", name, variant), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					property.Check(t, func(t *rapid.T) { differ(t, linear, variant) })
				})
			})
		}
	}
}

// differ runs one conversation.
func differ(t *rapid.T, linear bool, variant config.Variant) {
	memory := xdstest.NewMemory()
	o := newTestOrigin(t, memory, linear, variant == config.SotW)
	slow := func(addr, label string) string {
		n := memory.NewNetwork(t, addr)
		n.Delay(rapid.SampledFrom([]time.Duration{0, time.Millisecond, 3 * time.Millisecond}).Draw(t, label))
		return n.Addr()
	}
	node, stop := startOn(t, memory, func(cfg *config.Config) {
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{slow(o.Addr(), "way up")}, variant
		cfg.Upstream.ResourceTimeout = 150 * time.Millisecond
		cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max = 10*time.Millisecond, 30*time.Millisecond
		cfg.Cache.Linger = rapid.SampledFrom([]time.Duration{0, 2 * time.Millisecond, 4 * time.Millisecond, time.Minute}).Draw(t, "linger")
	})
	defer stop()
	down := slow(node.Addr(), "way down")
	pairs := []*pair{
		newPair(t, o, down, "SotW", xdstest.SotW, false),
		newPair(t, o, down, "delta", xdstest.Delta, false),
		newPair(t, o, down, "forgetful", xdstest.SotW, true),
	}
	salt := 0
	prepare := func(typeURL string, set, remove []string, bad bool) func() {
		salt++
		publish := o.prepare(t, typeURL, set, remove, salt, bad)
		for _, p := range pairs {
			for _, n := range slices.Concat(set, remove) {
				p.quirks[typeURL].changed(p.wants[typeURL], n)
			}
		}
		return publish
	}
	change := func(typeURL string, set, remove []string, bad bool) { prepare(typeURL, set, remove, bad)() }
	for range rapid.IntRange(3, 25).Draw(t, "steps") {
		p := pairs[rapid.IntRange(0, len(pairs)-1).Draw(t, "client")]
		typeURL := rapid.SampledFrom(differentialTypes).Draw(t, "type")
		some := func(label string, least int) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(differentialNames), least, 3, rapid.ID[string]).Draw(t, label)
		}
		switch rapid.SampledFrom([]string{
			"change", "change", "change", "spoil",
			"subscribe", "subscribe", "subscribe", "wildcard", "unsubscribe", "unsubscribe", "leave wildcard", "leave all",
			"reconnect", "away", "away", "restart", "cross", "cross", "cross",
		}).Draw(t, "step") {
		case "change":
			set, remove := some("set", 0), some("removed", 0)
			remove = slices.DeleteFunc(remove, func(n string) bool { return slices.Contains(set, n) || !o.canRemove(typeURL) })
			change(typeURL, set, remove, false)
		case "spoil":
			change(typeURL, some("spoilt", 1), nil, true)
		case "subscribe":
			if o.takesNames(typeURL) {
				p.subscribe(typeURL, some("names", 1)...)
			}
		case "wildcard":
			if o.takesWildcard(typeURL) {
				p.subscribe(typeURL, xdstest.Wildcard)
			}
		case "unsubscribe":
			p.unsubscribe(typeURL, some("names", 1)...)
		case "cross":
			set, drop := some("changed", 1), some("dropped", 1)
			o.arm(typeURL, prepare(typeURL, set, nil, false))
			if rapid.Bool().Draw(t, "wildcard, too") {
				drop = append(drop, xdstest.Wildcard)
			}
			p.unsubscribe(typeURL, drop...)
			o.wait(typeURL)
			if again := some("again", 0); len(again) > 0 && o.takesNames(typeURL) {
				p.subscribe(typeURL, again...)
			} else if o.takesWildcard(typeURL) {
				p.subscribe(typeURL, xdstest.Wildcard)
			}
		case "leave wildcard":
			p.unsubscribe(typeURL, xdstest.Wildcard)
		case "leave all":
			p.unsubscribe(typeURL, append([]string{xdstest.Wildcard}, differentialNames...)...)
		case "reconnect":
			if !p.away {
				p.again(t, (*xdstest.Auto).Reconnect)
			}
		case "away":
			if p.away {
				p.again(t, (*xdstest.Auto).Connect)
			} else {
				p.leave(t)
			}
		case "restart":
			if !o.canRestart() {
				break
			}
			if err := o.Restart(); err != nil {
				t.Fatalf("%v", err)
			}
			for _, p := range pairs {
				p.newStream()
			}
		}
		settle(t, pairs)
	}
	for u, all := range o.state { // what was rejected is mended, so that all is compared
		var bad []string
		for n, s := range all {
			if s.bad {
				bad = append(bad, n)
			}
		}
		change(u, bad, nil, false)
	}
	for _, p := range pairs {
		if p.away {
			p.again(t, (*xdstest.Auto).Connect)
		}
	}
	settle(t, pairs)
	for _, p := range pairs {
		p.relayed.CheckViolations(t)
		p.both((*xdstest.Auto).Close)
	}
	o.Stop()
}
