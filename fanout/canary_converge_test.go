package fanout

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// seenLocked is what a client sees of a type.
func (m *model) seenLocked(id, typeURL string) map[string]proto.Message {
	if !m.canaries[id] {
		return m.state[typeURL]
	}
	seen := maps.Clone(m.state[typeURL])
	for n, is := range m.candidate[typeURL] {
		if seen[n] = is; is == nil {
			delete(seen, n)
		}
	}
	return seen
}

// replacesLocked reports whether a candidate has something else of a name: the origin's changes of it are
// held back.
func (m *model) replacesLocked(typeURL, name string) bool {
	_, is := m.candidate[typeURL][name]
	return is
}

func (m *model) replaces(typeURL, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.replacesLocked(typeURL, name)
}

// gated are the types that a candidate may change, in the order E1.
var gated = []string{cds, lds, rds}

// TestCanaryConvergence is [TestConvergence] with candidates that are shown to some clients, replaced,
// promoted and taken back, while origins change other names and clients do what they like: canaries end
// up with exactly the candidate, all others with exactly the tables, and no rule is broken on the way.
func TestCanaryConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			w := newWorldOf(t, cache.Config{Tombstones: 8}, func(c *Config) {
				c.MaxSendBytes = rapid.SampledFrom([]int{0, 400}).Draw(t, "max send bytes") // B40
			}).listen()
			models := map[string]*model{"red": newModel(t)}
			stop := w.runModels(t, models)
			defer stop()
			calm := drawPace(t)
			actors := drawActors(t, w, models)
			r := &roll{world: w, model: models["red"], actors: actors}
			for range rapid.IntRange(20, 60).Draw(t, "steps") {
				if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
					r.step(t)
				} else {
					step(t, models, actors, calm)
				}
				calm.rest()
			}
			for _, a := range actors {
				a.nacking.Store(false)
				a.gate.Open(xdstest.BothWays)
				if a.away {
					a.Connect()
				}
			}
			for _, a := range actors { // B14, B16: what was rejected comes with any news
				for url, wants := range a.wants {
					if len(wants) > 0 {
						a.Subscribe(url, "end")
						wants["end"] = true
					}
				}
			}
			for _, url := range modelTypes {
				r.model.change(url, []string{"end"}, nil, nil)
			}
			settleAll(t, actors)
			r.hide(t, rapid.Bool().Draw(t, "promoted at the end"))
			settleAll(t, actors)
			for _, a := range actors {
				a.CheckViolations(t)
			}
		})
	})
}

// roll shows candidates.
type roll struct {
	*world

	model  *model
	actors []*actor
	shown  int
}

func (r *roll) step(t *rapid.T) {
	switch rapid.SampledFrom([]string{"show", "show", "hide", "promote"}).Draw(t, "rollout") {
	case "show":
		r.show(t)
	case "hide":
		r.hide(t, false)
	case "promote":
		r.hide(t, true)
	}
}

// show draws a candidate and who sees it.
func (r *roll) show(t *rapid.T) {
	g := r.cache.Groups()
	if len(g) == 0 {
		return
	}
	m := r.model
	m.mu.Lock()
	m.salt++
	m.candidate, m.canaries = make(map[string]map[string]proto.Message), make(map[string]bool)
	views := make(map[*cache.Table]*cache.View)
	for _, url := range gated {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID).Draw(t, url)
		if len(names) == 0 {
			continue
		}
		m.candidate[url] = make(map[string]proto.Message)
		replace := make(map[string]cache.Replacement)
		for _, n := range names {
			var is cache.Replacement
			if rapid.IntRange(0, 2).Draw(t, "kind") > 0 {
				m.candidate[url][n] = xdstest.Synthetic(url, n, m.salt)
				is = cache.Replacement{Resource: resources(t, m.candidate[url][n])[0], Member: xdstest.WildcardCapable(url)}
			} else {
				m.candidate[url][n] = nil
			}
			replace[n] = is
		}
		table := g[0].Table(resource.TypeOf(url))
		if views[table] = table.NewView(replace, cache.Stamp{}); views[table] == nil {
			delete(m.candidate, url)
		}
	}
	for _, a := range r.actors {
		m.canaries[a.id] = rapid.Bool().Draw(t, "canary "+a.id)
	}
	canaries := maps.Clone(m.canaries)
	m.mu.Unlock()
	r.shown++
	r.srv.Show(g[0], cache.NewCandidate(fmt.Sprint("r", r.shown), views), armOf(func(c Canary) bool { return canaries[c.ID] }), func(CanaryEvent) {})
}

// hide ends what is shown; promoted says that it becomes the origin's state first.
func (r *roll) hide(t *rapid.T, promoted bool) {
	m := r.model
	g := r.cache.Groups()
	if len(g) == 0 || m.candidate == nil {
		return
	}
	if promoted {
		for _, url := range gated {
			r.promote(url)
		}
	}
	r.srv.Hide(g[0], promoted)
	m.mu.Lock()
	m.candidate, m.canaries = nil, nil
	m.mu.Unlock()
	_ = t
}

// promote makes the candidate's content of a type the origin's.
func (r *roll) promote(url string) {
	m := r.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.candidate[url] == nil || m.feed == nil {
		return
	}
	u := cache.Update{Type: resource.TypeOf(url), Kind: cache.Partial}
	for _, n := range slices.Sorted(maps.Keys(m.candidate[url])) {
		is := m.candidate[url][n]
		if m.state[url][n] = is; is == nil {
			delete(m.state[url], n)
			u.Removed = append(u.Removed, n)
			continue
		}
		u.Resources = append(u.Resources, resources(m.t, is)...)
	}
	m.feed.Apply(u)
}
