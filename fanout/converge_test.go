package fanout

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"pgregory.net/rapid"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/xdstest"
)

// Whatever the origins change and the clients do, all clients end up with exactly the content that
// is due to them, and no rule is broken on the way: each client checks each frame for breaches of
// B4, B5, B29, B30, B31 and B34. Some names have structure, and delta clients subscribe to globs of
// them (G6, G7).
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			linger := rapid.SampledFrom([]time.Duration{time.Minute, time.Millisecond, -1}).Draw(t, "linger")
			idle := rapid.SampledFrom([]int64{0, -1}).Draw(t, "idle bytes")
			w := newWorldOf(t, cache.Config{Linger: linger, Tombstones: 8, IdleBytes: idle}, func(c *Config) {
				c.MaxSendBytes = rapid.SampledFrom([]int{0, 400}).Draw(t, "max send bytes") // B40
				c.Compression = rapid.SampledFrom([]Compression{{}, {From: 1}, {From: 200, After: 1}}).Draw(t, "compression")
			}).listen()
			models := map[string]*model{"red": newModel(t), "blue": newModel(t)}
			stop := w.runModels(t, models)
			defer stop()

			calm := drawPace(t)
			actors := drawActors(t, w, models)
			for range rapid.IntRange(20, 60).Draw(t, "steps") {
				step(t, models, actors, calm)
				calm.rest()
			}
			for _, a := range actors {
				a.nacking.Store(false)
				a.gate.Open(xdstest.BothWays)
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
					m.change(url, nil, drawNames(t, url, "removed at the end"), modelNames(url))
				}
			}
			settleAll(t, actors)
			for _, a := range actors {
				a.CheckViolations(t)
			}
		})
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

func drawNames(t *rapid.T, typeURL, label string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(modelNames(typeURL)), 0, 3, rapid.ID).Draw(t, label)
}

// drawWishes is drawNames, and globs where the client may ask for them (G6).
func (a *actor) drawWishes(t *rapid.T, typeURL string) []string {
	names := modelNames(typeURL)
	if a.variant.Delta {
		names = append(names, modelGlobs(typeURL)...)
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "names")
}

func drawActors(t *rapid.T, w *world, models map[string]*model) (actors []*actor) {
	all := []xdstest.Variant{xdstest.SotW, xdstest.Delta}
	for _, url := range []string{cds, eds} {
		all = append(all, xdstest.Variant{Service: url}, xdstest.Variant{Delta: true, Service: url})
	}
	for i := range rapid.IntRange(2, 4).Draw(t, "clients") {
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(models))).Draw(t, "key")
		a := &actor{id: fmt.Sprint("client-", i), variant: rapid.SampledFrom(all).Draw(t, "variant"), model: models[key], gate: xdstest.NewGate()}
		a.wants = map[string]map[string]bool{}
		a.Auto = xdstest.StartAuto(t, xdstest.AutoConfig{
			Addr: w.addr, DialOptions: []grpc.DialOption{w.net.Option(), a.gate.Option()}, Variant: a.variant, Node: xdstest.Node(a.id, key),
			Overdue:  func() int { return int(a.overdue.Load()) },
			Trusting: rapid.Bool().Draw(t, "trusting"),
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
func step(t *rapid.T, models map[string]*model, actors []*actor, calm pace) {
	a := actors[rapid.IntRange(0, len(actors)-1).Draw(t, "client")]
	url := rapid.SampledFrom(modelTypes).Draw(t, "type")
	if a.variant.Service != "" {
		url = a.variant.Service
	}
	if a.wants[url] == nil {
		a.wants[url] = map[string]bool{}
	}
	switch rapid.SampledFrom([]string{
		"change", "change", "change", "change", "subscribe", "subscribe", "subscribe", "all", "unsubscribe", "drop and want", "drop and want", "not all", "reconnect", "away", "away", "nack", "nack", "accept", "cross", "cross", "cross", "again", "wait", "settle", "settle", "settle", "settle",
	}).Draw(t, "step") {
	case "change":
		m := models[rapid.SampledFrom(slices.Sorted(maps.Keys(models))).Draw(t, "origin")]
		changed := rapid.SampledFrom(modelTypes).Draw(t, "changed")
		m.change(changed, drawNames(t, changed, "set"), drawNames(t, changed, "removed"), drawNames(t, changed, "repeated"))
	case "subscribe":
		if names := a.drawWishes(t, url); len(names) > 0 {
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
		if names := a.drawWishes(t, url); len(names) > 0 {
			a.Unsubscribe(url, names...)
			for _, n := range names {
				delete(a.wants[url], n)
			}
		}
	case "drop and want":
		a.dropAndWant(t, calm)
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
			if before := a.Stats().Nacks; reads && n != "*" && !xdstest.IsGlob(n) && !a.model.replaces(url, n) {
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
	case "cross":
		a.cross(t)
	case "again": // B35
		a.Repeat(url, a.drawWishes(t, url)...)
	case "wait": // B12 among others
		pause := rapid.SampledFrom([]time.Duration{time.Second, 40 * time.Second}).Draw(t, "time")
		for _, a := range actors {
			a.overdue.Add(int64(pause / (20 * time.Second))) // at most
		}
		time.Sleep(pause) //nolint:forbidigo // virtual time
	}
}
