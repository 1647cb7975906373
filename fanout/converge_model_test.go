package fanout

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

var modelTypes = []string{cds, eds, lds, rds}

// modelNames are the names of resources of a type, and modelGlobs those of
// globs that only delta clients ask for.
func modelNames(typeURL string) []string {
	return []string{"a", "b", "c", xdstest.URN("o", typeURL, "g/x"), xdstest.URN("o", typeURL, "g/y"), xdstest.URN("o", typeURL, "g/h/x")}
}

func modelGlobs(typeURL string) []string {
	return []string{xdstest.URN("o", typeURL, "g/*"), xdstest.URN("o", typeURL, "g/h/*")}
}

// model is an origin of one key: plain maps, and a feed that is notified of their changes.
type model struct {
	t xdstest.TB

	mu    sync.Mutex // guards the rest, and the order of what is applied
	salt  int
	state map[string]map[string]proto.Message // by type URL and name
	feed  *cache.Feed

	// candidate is what canaries, by node id, see instead of some of state; nil for absent names.
	candidate map[string]map[string]proto.Message
	canaries  map[string]bool
}

func newModel(t xdstest.TB) *model {
	m := &model{t: t, state: map[string]map[string]proto.Message{}}
	for _, url := range modelTypes {
		m.state[url] = map[string]proto.Message{}
	}
	return m
}

// run answers the demand of a feed, and of those that follow it when the key
// was idle in between, until stop is closed.
func (m *model) run(feeds <-chan running, stop <-chan struct{}) {
	var news <-chan struct{}
	for {
		select {
		case f := <-feeds:
			if f.ctx.Err() != nil {
				continue // its successor was quicker to be here
			}
			m.mu.Lock()
			m.feed = f.Feed
			m.answerLocked(f.TakeDemand(true, true))
			m.mu.Unlock()
			news = f.News()
		case <-news:
			m.mu.Lock()
			m.answerLocked(m.feed.TakeDemand(false, true))
			m.mu.Unlock()
		case <-stop:
			return
		}
	}
}

func (m *model) answerLocked(demand []cache.Demand) {
	for _, d := range demand {
		u := cache.Update{Type: d.Table.Type, Full: d.Wildcard && d.WildcardChanged}
		names, covered := map[string]bool{}, map[string]bool{}
		for _, n := range d.Names {
			names[n] = true
		}
		state := m.state[d.Table.Type.URL]
		for _, n := range slices.Sorted(maps.Keys(state)) { // the order counts where a check is repeated
			if d.Wildcard || xdstest.Covers(names, n) {
				u.Resources = append(u.Resources, resources(m.t, state[n])...)
			}
			covered[n], covered[resource.GlobOf(n)] = true, true
		}
		gone := map[string]bool{}
		for _, n := range d.Subscribe {
			gone[n] = !covered[n] // G7, for globs
		}
		// An idle key claims what it holds, and is notified which of that is gone (C8): a member of
		// a glob that is not mentioned may still exist.
		for n := range m.feed.Held(d.Table.Type) {
			gone[n] = gone[n] || !covered[n]
		}
		for _, n := range slices.Sorted(maps.Keys(gone)) {
			if gone[n] {
				u.Removed = append(u.Removed, n)
			}
		}
		m.feed.Apply(u)
	}
}

// change gives resources new content, removes them, or repeats what they are.
func (m *model) change(typeURL string, set, remove, repeat []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.salt++
	held := func(n string) bool { return m.replacesLocked(typeURL, n) }
	set, remove = slices.DeleteFunc(slices.Clone(set), held), slices.DeleteFunc(slices.Clone(remove), held)
	u := cache.Update{Type: resource.TypeOf(typeURL), Kind: cache.Partial}
	for _, n := range set {
		m.state[typeURL][n] = xdstest.Synthetic(typeURL, n, m.salt)
	}
	for _, n := range remove {
		delete(m.state[typeURL], n)
		u.Removed = append(u.Removed, n)
	}
	for _, n := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(set, repeat)))) {
		if res := m.state[typeURL][n]; res != nil {
			u.Resources = append(u.Resources, resources(m.t, res)...)
		}
	}
	if m.feed != nil {
		m.feed.Apply(u)
	}
}

// actor is one client of the property, and what it wants.
type actor struct {
	*xdstest.Auto
	id      string
	variant xdstest.Variant
	model   *model
	wants   map[string]map[string]bool // by type URL and name, "*" among them
	nacking atomic.Bool
	overdue atomic.Int64 // see AutoConfig
	away    bool
	nacked  bool // it may hold back what it rejected (B14)
	gate    *xdstest.Gate
}

// ways are what may be held back of a client.
var ways = []xdstest.Direction{xdstest.ToServer, xdstest.ToClient, xdstest.BothWays}

// cross holds back what goes to and fro, or lets some of it through.
func (a *actor) cross(t *rapid.T) {
	way := rapid.SampledFrom(ways).Draw(t, "way")
	switch rapid.SampledFrom([]string{"pass", "pass", "close", "close", "open"}).Draw(t, "gate") {
	case "pass":
		a.gate.Pass(way)
	case "close":
		a.gate.Close(way)
	case "open":
		a.gate.Open(way)
	}
}

// dropAndWant drops names and asks for them again while a change is on its way (B8).
func (a *actor) dropAndWant(t *rapid.T, calm pace) {
	var types []string
	for _, url := range modelTypes {
		if len(a.wants[url]) > 0 {
			types = append(types, url)
		}
	}
	if len(types) == 0 {
		return
	}
	url := rapid.SampledFrom(types).Draw(t, "type")
	wants := slices.Sorted(maps.Keys(a.wants[url]))
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(wants), 1, len(wants), rapid.ID).Draw(t, "dropped and wanted")
	a.gate.Close(xdstest.ToClient)
	a.model.change(url, []string{rapid.SampledFrom(modelNames(url)).Draw(t, "crossing")}, nil, nil)
	calm.rest()
	a.Unsubscribe(url, names...)
	a.Subscribe(url, names...)
	calm.rest()
	a.gate.Open(xdstest.ToClient)
	if a.isReading() {
		a.settle(t)
	}
}

// differences compares what the client holds with the model.
func (a *actor) differences() (diff []string) {
	a.model.mu.Lock()
	defer a.model.mu.Unlock()
	for url, wants := range a.wants {
		held, state := a.Held(url), a.model.seenLocked(a.id, url)
		for n, m := range state {
			if h, ok := held[n]; (xdstest.Covers(wants, n) || wants["*"]) && (!ok || string(h.Body) != string(xdstest.Any(m).GetValue())) {
				diff = append(diff, fmt.Sprintf("%s %q is missing or old", url, n))
			}
		}
		for n := range held {
			// D6: a SotW client of some types cannot be notified that a resource is gone.
			mayKeep := !a.variant.Delta && !xdstest.FullState(url) && wants[n]
			if (state[n] == nil || !xdstest.Covers(wants, n) && !wants["*"]) && !mayKeep {
				diff = append(diff, fmt.Sprintf("%s %q should be gone", url, n))
			}
		}
	}
	return diff
}

func (a *actor) settle(t xdstest.TB) {
	var diff []string
	defer func() {
		if len(diff) > 0 {
			t.Logf("the differences are %q", diff)
		}
	}()
	a.WaitFor(t, fmt.Sprintf("all that is wanted, %v", a.wants), func() bool {
		diff = a.differences()
		return len(diff) == 0
	})
}

func settleAll(t xdstest.TB, actors []*actor) {
	for _, a := range actors {
		a.settle(t)
	}
}

// isReading reports whether the client takes what comes, and is heard.
func (a *actor) isReading() bool { return !a.away && !a.nacked && a.gate.Closed() == 0 }

// pace is whether all that runs comes to rest after each step. If so, what crosses is
// what was drawn, and a failure comes again; if not, more may happen at once.
type pace bool

func drawPace(t *rapid.T) pace { return pace(!rapid.Bool().Draw(t, "hasty")) }

func (calm pace) rest() {
	if calm {
		synctest.Wait()
	}
}
