package cache

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// TestGateProperty: Sum: two caches get the same answers from a control plane, and one of them is frozen
// at times. A new upstream stream of both always begins with the same versions. Whenever it is not frozen,
// its clients see the same.
// While it is frozen, they see what they saw before, but for names that they wait for.
func TestGateProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		guard := rapid.SampledFrom([]int{0, 50}).Draw(t, "guard")
		open, gated := newWorld(t, Config{MaxRemovalPercent: guard}), newWorld(t, Config{MaxRemovalPercent: guard})
		defer open.close()
		defer gated.close()
		wild := rapid.Bool().Draw(t, "wildcard")
		for _, w := range []*world{open, gated} {
			w.client(clusters, wild, "a", "b")
			w.client(routes, false, "a", "b")
			w.client(endpoints, false, "a", "b")
			w.feed.TakeDemand(true, true)
			w.full(clusters, "0", res("a", "0"), res("b", "0"))
		}
		frozen, version := false, 0
		see := func(w *world) (seen []map[string]string) {
			for _, typ := range []*resource.Type{clusters, routes, endpoints} {
				one, of := make(map[string]string), w.group.Table(typ)
				of.mu.RLock()
				for name, e := range of.core.store.Entries() {
					if e.Res != nil {
						one[name] = string(e.Res.Body)
					}
				}
				of.mu.RUnlock()
				seen = append(seen, one)
			}
			return seen
		}
		names, contents := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.SampledFrom([]string{"1", "2"})
		before := see(gated)
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				version++
				u := Update{Type: rapid.SampledFrom([]*resource.Type{clusters, routes, endpoints}).Draw(t, "type"), Version: fmt.Sprint(version)}
				u.Full = u.Type.FullState && rapid.Bool().Draw(t, "full")
				for _, name := range rapid.SliceOfNDistinct(names, 0, 5, rapid.ID).Draw(t, "names") {
					switch content := contents.Draw(t, "content"); {
					case !u.Full && rapid.Bool().Draw(t, "removed"):
						u.Removed = append(u.Removed, name)
					default:
						u.Resources = append(u.Resources, res(name, content))
					}
				}
				open.feed.Apply(u)
				gated.feed.Apply(u)
			},
			"release": func(*rapid.T) {
				open.group.Release()
				gated.group.Release()
			},
			"freeze": func(t *rapid.T) {
				if frozen = true; rapid.Bool().Draw(t, "all") {
					gated.cache.FreezeAll(Freeze{})
				} else {
					gated.cache.Freeze(gated.group.Key, Freeze{})
				}
				before = see(gated)
			},
			"unfreeze": func(*rapid.T) {
				gated.cache.UnfreezeAll()
				gated.cache.Unfreeze(gated.group.Key)
				frozen = false
			},
			"": func(t *rapid.T) {
				for _, typ := range []*resource.Type{clusters, routes, endpoints} {
					a, b := open.feed.Held(typ), gated.feed.Held(typ)
					if !maps.Equal(a, b) {
						t.Fatalf("%s: a new stream is sent %v, expected %v", typ.URL, b, a)
					}
				}
				x, y := see(open), see(gated)
				if !frozen && fmt.Sprint(x) != fmt.Sprint(y) {
					t.Fatalf("clients see %v, expected %v", y, x)
				}
				if frozen {
					for i := range 2 {
						for name, was := range before[i] {
							if y[i][name] != was {
								t.Fatalf("frozen: clients see %v, before %v", y, before)
							}
						}
						before[i] = maps.Clone(y[i]) // with names that clients waited for
					}
				}
				if wrong := append(open.cache.Check(), gated.cache.Check()...); len(wrong) > 0 {
					t.Fatal(wrong)
				}
			},
		})
		gated.cache.UnfreezeAll()
		gated.cache.Unfreeze(gated.group.Key)
		a, b := open.client(clusters, wild, "a", "b"), gated.client(clusters, wild, "a", "b")
		x, y := a.ask(t, Query{}), b.ask(t, Query{})
		nx, ny := said(x), said(y)
		slices.Sort(nx)
		slices.Sort(ny)
		if !slices.Equal(nx, ny) {
			t.Fatalf("a new client is sent %q, expected %q", ny, nx)
		}
	})
}
