package fanout

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"google.golang.org/grpc"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestMakeBeforeBreak: E2, E5, B35, B40: an origin adds a cluster and its endpoints
// before a route leads there, and removes them after none does. Whatever clients do
// meanwhile (read slowly, come back, ask for everything again), and however its
// changes come together, none ever holds a route to what it does not hold.
func TestMakeBeforeBreak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			w := newWorldOf(t, cache.Config{Linger: time.Minute, Tombstones: 8}, func(c *Config) {
				c.MaxSendBytes = rapid.SampledFrom([]int{0, 200}).Draw(t, "max send bytes")
				c.AckTimeout = time.Hour // B12: else a slow client may lose what its routes lead to
			}).listen()
			w.setIntervals(rapid.SampledFrom([][]string{nil, {cds}, {eds}, {rds}, {cds, eds, lds, rds}}).Draw(t, "paced")...)
			// The smaller it is, the more of what happens concerns the same.
			o := &careful{
				model: newModel(t), pace: drawPace(t), to: map[string]string{},
				clusters: []string{"a", "b", "c", "d"}[:rapid.IntRange(2, 4).Draw(t, "clusters")], routes: []string{"r", "s"}[:rapid.IntRange(1, 2).Draw(t, "routes")],
			}
			defer w.runModels(t, map[string]*model{"red": o.model})()
			for _, c := range o.clusters {
				o.supply(c)
			}
			for _, r := range o.routes {
				o.lead(r, "a")
			}
			var actors []*mover
			for i := range rapid.IntRange(1, 3).Draw(t, "clients") {
				actors = append(actors, newMover(t, w, o, i))
			}
			for range rapid.IntRange(10, 40).Draw(t, "steps") {
				o.step(t, actors)
				actors[rapid.IntRange(0, len(actors)-1).Draw(t, "client")].step(t, actors)
				o.rest()
			}
			catchUp(t, actors)
			for _, a := range actors {
				a.CheckViolations(t)
			}
		})
	})
}

// careful is an origin that makes before it breaks.
type careful struct {
	*model
	pace
	clusters, routes []string          // that there may be; fixed
	to               map[string]string // where each route leads
	v                int
}

// apply applies a change of one type.
func (o *careful) apply(typeURL string, removed []string, ms ...proto.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range ms {
		o.state[typeURL][xdstest.NameOf(m)] = m
	}
	for _, n := range removed {
		delete(o.state[typeURL], n)
	}
	if o.feed != nil {
		o.feed.Apply(cache.Update{Type: resource.TypeOf(typeURL), Kind: cache.Partial, Resources: resources(o.t, ms...), Removed: removed})
	}
}

func (o *careful) supply(name string) {
	o.v++
	o.apply(cds, nil, cluster(name, o.v))
	o.apply(eds, nil, endpoints(name, o.v))
}

func (o *careful) lead(name, to string) {
	o.to[name] = to
	o.apply(rds, nil, route(name, to))
}

func (o *careful) leadsTo(cluster string) bool {
	for _, to := range o.to {
		if to == cluster {
			return true
		}
	}
	return false
}

// step makes a change.
func (o *careful) step(t *rapid.T, clients []*mover) {
	c := rapid.SampledFrom(o.clusters).Draw(t, "cluster")
	switch rapid.SampledFrom([]string{"supply", "move", "move", "remove", "remove", "replace", "renew", "nothing"}).Draw(t, "change") {
	case "supply":
		o.supply(c)
	case "move":
		if o.state[cds][c] != nil {
			o.lead(rapid.SampledFrom(o.routes).Draw(t, "route"), c)
		}
	case "remove":
		if !o.leadsTo(c) {
			o.apply(eds, []string{c})
			o.apply(cds, []string{c})
		}
	case "renew": // E5
		catchUp(t, clients) // who never had a cluster cannot be spared a route there
		for _, a := range clients {
			a.cross(t)
		}
		o.renew(c)
	case "replace": // all at once, as after a slow start
		o.supply(c)
		for _, r := range o.routes {
			o.lead(r, c)
		}
		for _, old := range o.clusters {
			if old != c {
				o.apply(cds, []string{old})
				o.apply(eds, []string{old})
			}
		}
	}
	o.rest()
}

// renew is a new stream to another origin, which has a single cluster, and all routes
// there. It says so type by type: clusters go before their routes are known.
func (o *careful) renew(to string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answerLocked(o.feed.TakeDemand(false, true)) // the one before has been asked for all that
	o.v++
	for _, url := range modelTypes {
		clear(o.state[url])
	}
	o.feed.TakeDemand(true, true)
	answer := func(typeURL string, removed []string, ms ...proto.Message) {
		for _, m := range ms {
			o.state[typeURL][xdstest.NameOf(m)] = m
		}
		o.feed.Apply(cache.Update{Type: resource.TypeOf(typeURL), Full: typeURL == cds, Resources: resources(o.t, ms...), Removed: removed})
	}
	gone := slices.DeleteFunc(slices.Clone(o.clusters), func(n string) bool { return n == to })
	answer(cds, nil, cluster(to, o.v))
	answer(eds, gone, endpoints(to, o.v))
	var routes []proto.Message
	for _, r := range o.routes {
		o.to[r] = to
		routes = append(routes, route(r, to))
	}
	answer(rds, nil, routes...)
}

// mover is a client that is moved about by a careful origin.
type mover struct {
	*actor
	origin *careful
	broken atomic.Pointer[string]
}

func newMover(t *rapid.T, w *world, o *careful, i int) *mover {
	a := &mover{origin: o, actor: &actor{model: o.model, variant: rapid.SampledFrom([]xdstest.Variant{xdstest.SotW, xdstest.Delta}).Draw(t, "variant"), gate: xdstest.NewGate()}}
	a.Auto = xdstest.StartAuto(t, xdstest.AutoConfig{
		Addr: w.addr, DialOptions: []grpc.DialOption{w.net.Option(), a.gate.Option()}, Variant: a.variant,
		Node: xdstest.Node(fmt.Sprint("client-", i), "red"), BeforeAck: a.look,
		Forgetful: rapid.Bool().Draw(t, "forgetful"), Trusting: rapid.Bool().Draw(t, "trusting"),
	})
	a.wants = map[string]map[string]bool{cds: {}, eds: {}, rds: {}}
	if rapid.Bool().Draw(t, "everything") {
		a.wants[cds]["*"] = true
		a.Subscribe(cds)
	} else {
		a.want(cds, o.clusters...)
	}
	a.want(eds, o.clusters...)
	a.settle(t) // routes may come before clusters of which nothing is known yet
	a.want(rds, o.routes...)
	return a
}

func (a *mover) want(typeURL string, names ...string) {
	for _, n := range names {
		a.wants[typeURL][n] = true
	}
	a.Subscribe(typeURL, names...)
}

func (a *mover) leave(route string) {
	delete(a.wants[rds], route)
	a.Unsubscribe(rds, route)
}

// look notes the first route that the client holds without what it leads to.
func (a *mover) look(_ context.Context, f *xdstest.Frame) {
	clusters, endpoints := a.Held(cds), a.Held(eds)
	for name, held := range a.Held(rds) {
		var r routev3.RouteConfiguration
		if err := proto.Unmarshal(held.Body, &r); err != nil {
			panic(err) // the test made it
		}
		to := r.GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetCluster()
		if _, ok := clusters[to]; !ok {
			a.notes(fmt.Sprintf("route %q leads to %q, which is no cluster after %v", name, to, f))
		}
		if _, ok := endpoints[to]; !ok {
			a.notes(fmt.Sprintf("route %q leads to %q, which has no endpoints after %v", name, to, f))
		}
	}
}

func (a *mover) notes(wrong string) { a.broken.CompareAndSwap(nil, &wrong) }

func (a *mover) step(t *rapid.T, all []*mover) {
	switch rapid.SampledFrom([]string{"cross", "cross", "cross", "cross", "again", "route", "in between", "in between", "cluster", "anew", "reconnect", "read", "nothing"}).Draw(t, "step") {
	case "cross":
		a.cross(t)
	case "again":
		if a.wants[cds]["*"] {
			a.Repeat(cds, "*")
		} else {
			a.Repeat(cds, rapid.SampledFrom(a.origin.clusters).Draw(t, "again"))
		}
	case "route":
		r := rapid.SampledFrom(a.origin.routes).Draw(t, "name")
		if a.wants[rds][r] {
			a.leave(r)
		} else {
			a.want(rds, r)
		}
	case "in between": // dropped, and wanted again before what was on its way is read
		a.gate.Close(xdstest.ToClient)
		a.origin.step(t, all)
		r := rapid.SampledFrom(a.origin.routes).Draw(t, "name")
		a.leave(r)
		a.origin.rest()
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			a.origin.step(t, all)
		}
		a.want(rds, r)
	case "cluster":
		a.want(cds, rapid.SampledFrom(a.origin.clusters).Draw(t, "name"))
	case "anew":
		a.resubscribe(t, all)
	case "reconnect": // SotW sees the new state alone after that
		if a.variant.Delta {
			a.Reconnect()
		}
	case "read":
		catchUp(t, all)
	}
}

// resubscribe drops a resource that no route leads to, and subscribes to it again. A route that
// leads there must not be sent before that resource, however late a response in flight is read; but
// only once the relay knows of the new subscription, of which no SotW client can be sure.
func (a *mover) resubscribe(t *rapid.T, all []*mover) {
	url, c := rapid.SampledFrom([]string{cds, eds}).Draw(t, "type"), rapid.SampledFrom(a.origin.clusters).Draw(t, "anew")
	if !a.variant.Delta || !a.wants[url][c] || a.origin.leadsTo(c) {
		return
	}
	catchUp(t, all)
	a.gate.Close(xdstest.ToClient)
	a.origin.supply(rapid.SampledFrom(a.origin.clusters).Draw(t, "on its way"))
	a.Unsubscribe(url, c)
	a.Subscribe(url, c)
	synctest.Wait()
}

// catchUp waits until the clients have all that there is. No time passes while something
// is held of one: removals wait for a moment only for who comes back in parts.
func catchUp(t *rapid.T, all []*mover) {
	for _, a := range all {
		a.gate.Open(xdstest.BothWays)
	}
	synctest.Wait() // a client with the current content may still have older content in flight
	for _, a := range all {
		a.settle(t)
		if wrong := a.broken.Load(); wrong != nil {
			t.Fatalf("%s: %s\n%v", a.variant, *wrong, a.Auto)
		}
	}
}
