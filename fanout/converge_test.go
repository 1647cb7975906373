package fanout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

var (
	modelTypes = []string{cds, eds, lds, rds}
	modelNames = []string{"a", "b", "c", "d"}
)

// model is an origin of one key: plain maps, and a feed that is told of them.
type model struct {
	t xdstest.TB

	mu    sync.Mutex // guards the rest, and the order of what is applied
	salt  int
	state map[string]map[string]proto.Message // by type URL and name
	feed  *cache.Feed
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
		for _, n := range d.Subscribe {
			if m.state[d.Table.Type.URL][n] == nil {
				u.Removed = append(u.Removed, n)
			}
		}
		for n, res := range m.state[d.Table.Type.URL] {
			if d.Wildcard || slices.Contains(d.Names, n) {
				u.Resources = append(u.Resources, resources(m.t, res)...)
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
	u := cache.Update{Type: resource.TypeOf(typeURL), Partial: true}
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
	variant xdstest.Variant
	model   *model
	wants   map[string]map[string]bool // by type URL and name, "*" among them
	nacking atomic.Bool
	away    bool
	nacked  bool // it may hold back what it rejected (B14)

	mu       sync.Mutex
	readable chan struct{} // closed while it reads
}

func (a *actor) beforeRead(ctx context.Context) {
	a.mu.Lock()
	r := a.readable
	a.mu.Unlock()
	select {
	case <-r:
	case <-ctx.Done():
	}
}

func (a *actor) read(yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.readable:
		if !yes {
			a.readable = make(chan struct{})
		}
	default:
		if yes {
			close(a.readable)
		}
	}
}

// differences compares what the client holds with the model.
func (a *actor) differences() (diff []string) {
	a.model.mu.Lock()
	defer a.model.mu.Unlock()
	for url, wants := range a.wants {
		held := a.Held(url)
		for n, m := range a.model.state[url] {
			if h, ok := held[n]; (wants[n] || wants["*"]) && (!ok || string(h.Body) != string(xdstest.Any(m).GetValue())) {
				diff = append(diff, fmt.Sprintf("%s %q is missing or old", url, n))
			}
		}
		for n := range held {
			// D6: nothing can tell a SotW client of some types that a resource is gone.
			mayKeep := !a.variant.Delta && !xdstest.FullState(url) && wants[n]
			if (a.model.state[url][n] == nil || !wants[n] && !wants["*"]) && !mayKeep {
				diff = append(diff, fmt.Sprintf("%s %q should be gone", url, n))
			}
		}
	}
	return diff
}

func (a *actor) settle(t xdstest.TB) {
	a.WaitFor(t, fmt.Sprintf("all that is wanted, %v", a.wants), func() bool { return len(a.differences()) == 0 })
}

func settleAll(t xdstest.TB, actors []*actor) {
	for _, a := range actors {
		a.settle(t)
	}
}

// isReading reports whether the client takes what comes.
func (a *actor) isReading() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.readable:
		return !a.away && !a.nacked
	default:
		return false
	}
}

// Whatever the origins change and the clients do, all end up with exactly what
// there is for them, and no rule was broken on the way.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		linger := rapid.SampledFrom([]time.Duration{time.Minute, time.Millisecond, -1}).Draw(t, "linger")
		idle := rapid.SampledFrom([]int64{0, -1}).Draw(t, "idle bytes")
		w := newWorldOf(t, cache.Config{Linger: linger, Tombstones: 8, IdleBytes: idle}).listen()
		models := map[string]*model{"red": newModel(t), "blue": newModel(t)}
		stop := w.runModels(t, models)
		defer stop()

		actors := drawActors(t, w, models)
		for range rapid.IntRange(20, 60).Draw(t, "steps") {
			step(t, models, actors)
		}
		for _, a := range actors {
			a.nacking.Store(false)
			a.read(true)
			if a.away { // the others stay on their streams
				a.Connect()
			}
			if !a.nacked {
				a.settle(t)
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
		for _, m := range models {
			for _, url := range modelTypes {
				m.change(url, []string{"end"}, nil, nil)
			}
		}
		settleAll(t, actors)
		for _, m := range models {
			for _, url := range modelTypes {
				m.change(url, nil, drawNames(t, "removed at the end"), modelNames)
			}
		}
		settleAll(t, actors)
		for _, a := range actors {
			a.CheckViolations(t)
		}
	})
}

// runModels gives each key's feeds to its model.
func (w *world) runModels(t xdstest.TB, models map[string]*model) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	feeds := map[string]chan running{}
	for key, m := range models {
		mine := make(chan running, 100)
		feeds[key] = mine
		wg.Go(func() { m.run(mine, done) })
	}
	wg.Go(func() {
		for {
			select {
			case f := <-w.feeds:
				feeds[string(f.Key())] <- f
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

func drawNames(t *rapid.T, label string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(modelNames), 0, 3, rapid.ID).Draw(t, label)
}

func drawActors(t *rapid.T, w *world, models map[string]*model) (actors []*actor) {
	all := []xdstest.Variant{xdstest.SotW, xdstest.Delta}
	for _, url := range []string{cds, eds} {
		all = append(all, xdstest.Variant{Service: url}, xdstest.Variant{Delta: true, Service: url})
	}
	for i := range rapid.IntRange(2, 4).Draw(t, "clients") {
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(models))).Draw(t, "key")
		a := &actor{variant: rapid.SampledFrom(all).Draw(t, "variant"), model: models[key], readable: make(chan struct{})}
		close(a.readable)
		a.wants = map[string]map[string]bool{}
		a.Auto = xdstest.StartAuto(t, xdstest.AutoConfig{
			Addr: w.addr, Variant: a.variant, Node: xdstest.Node(fmt.Sprint("client-", i), key), BeforeRead: a.beforeRead,
			Nack: func(*xdstest.Frame) string {
				if a.nacking.Load() {
					return "not now"
				}
				return ""
			},
		})
		a.WaitFor(t, "a connection", a.Connected)
		actors = append(actors, a)
	}
	return actors
}

// step makes one random change to an origin, or to a client.
func step(t *rapid.T, models map[string]*model, actors []*actor) {
	a := actors[rapid.IntRange(0, len(actors)-1).Draw(t, "client")]
	url := rapid.SampledFrom(modelTypes).Draw(t, "type")
	if a.variant.Service != "" {
		url = a.variant.Service
	}
	if a.wants[url] == nil {
		a.wants[url] = map[string]bool{}
	}
	switch rapid.SampledFrom([]string{
		"change", "change", "change", "change", "subscribe", "subscribe", "subscribe", "all", "unsubscribe", "not all", "reconnect", "away", "away", "nack", "nack", "accept", "slow", "settle", "settle", "settle", "settle",
	}).Draw(t, "step") {
	case "change":
		m := models[rapid.SampledFrom(slices.Sorted(maps.Keys(models))).Draw(t, "origin")]
		m.change(rapid.SampledFrom(modelTypes).Draw(t, "changed"), drawNames(t, "set"), drawNames(t, "removed"), drawNames(t, "repeated"))
	case "subscribe":
		if names := drawNames(t, "names"); len(names) > 0 {
			a.Subscribe(url, names...)
			for _, n := range names {
				a.wants[url][n] = true
			}
		}
	case "all":
		if xdstest.WildcardCapable(url) {
			a.Subscribe(url)
			a.wants[url]["*"] = true
		}
	case "unsubscribe":
		if names := drawNames(t, "names"); len(names) > 0 {
			a.Unsubscribe(url, names...)
			for _, n := range names {
				delete(a.wants[url], n)
			}
		}
	case "not all":
		a.Unsubscribe(url, "*")
		delete(a.wants[url], "*")
	case "reconnect":
		a.Reconnect()
	case "away":
		if a.away = !a.away; a.away {
			a.Disconnect()
		} else {
			a.Connect()
		}
	case "nack":
		reads := a.isReading()
		a.nacking.Store(true)
		a.nacked = true
		for n := range a.wants[url] {
			if before := a.Stats().Nacks; reads && n != "*" {
				a.model.change(url, []string{n}, nil, nil)
				a.WaitFor(t, "something to reject", func() bool { return a.Stats().Nacks > before })
			}
		}
	case "accept":
		a.nacking.Store(false)
	case "settle":
		for _, a := range actors {
			if a.isReading() {
				a.settle(t)
			}
		}
	case "slow":
		a.read(rapid.Bool().Draw(t, "reads"))
	}
}
