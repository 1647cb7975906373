package fanout

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"google.golang.org/grpc"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

var (
	mbbClusters = []string{"a", "b", "c", "d"}
	mbbRoutes   = []string{"r", "s"}
)

// TestMakeBeforeBreak: E2, E5, B35, B40: an origin adds a cluster and its endpoints
// before a route leads there, and removes them after none does. Whatever clients do
// meanwhile (read slowly, come back, ask for everything again), and however its
// changes come together, none ever holds a route to what it does not hold.
func TestMakeBeforeBreak(t *testing.T) {
	virtual(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			w := newWorldOf(t, cache.Config{Linger: time.Minute, Tombstones: 8}, func(c *Config) {
				c.MaxSendBytes = rapid.SampledFrom([]int{0, 200}).Draw(t, "max send bytes")
				c.AckTimeout = time.Hour // B12: else a slow client may lose what its routes lead to
			}).listen()
			o := &careful{model: newModel(t), to: map[string]string{}}
			defer w.runModels(t, map[string]*model{"red": o.model})()
			for _, c := range mbbClusters {
				o.supply(c)
			}
			for _, r := range mbbRoutes {
				o.lead(r, "a")
			}
			var actors []*mover
			for i := range rapid.IntRange(1, 3).Draw(t, "clients") {
				actors = append(actors, newMover(t, w, o, i))
			}
			for range rapid.IntRange(10, 40).Draw(t, "steps") {
				o.step(t, actors)
				actors[rapid.IntRange(0, len(actors)-1).Draw(t, "client")].step(t, actors)
			}
			for _, a := range actors {
				a.catchUp(t)
				a.CheckViolations(t)
			}
		})
	})
}

// careful is an origin that makes before it breaks.
type careful struct {
	*model
	to map[string]string // where each route leads
	v  int
}

// tell applies a change of one type.
func (o *careful) tell(typeURL string, removed []string, ms ...proto.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range ms {
		o.state[typeURL][xdstest.NameOf(m)] = m
	}
	for _, n := range removed {
		delete(o.state[typeURL], n)
	}
	if o.feed != nil {
		o.feed.Apply(cache.Update{Type: resource.TypeOf(typeURL), Partial: true, Resources: resources(o.t, ms...), Removed: removed})
	}
}

func (o *careful) supply(name string) {
	o.v++
	o.tell(cds, nil, cluster(name, o.v))
	o.tell(eds, nil, endpoints(name, o.v))
}

func (o *careful) lead(name, to string) {
	o.to[name] = to
	o.tell(rds, nil, route(name, to))
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
	c := rapid.SampledFrom(mbbClusters).Draw(t, "cluster")
	switch rapid.SampledFrom([]string{"supply", "move", "move", "remove", "remove", "replace", "renew", "nothing"}).Draw(t, "change") {
	case "supply":
		o.supply(c)
	case "move":
		if o.state[cds][c] != nil {
			o.lead(rapid.SampledFrom(mbbRoutes).Draw(t, "route"), c)
		}
	case "remove":
		if !o.leadsTo(c) {
			o.tell(eds, []string{c})
			o.tell(cds, []string{c})
		}
	case "renew": // E5
		for _, a := range clients { // who never had a cluster cannot be spared a route there
			a.catchUp(t)
			a.read(rapid.Bool().Draw(t, "reads"))
		}
		o.renew(c)
	case "replace": // all at once, as after a slow start
		o.supply(c)
		for _, r := range mbbRoutes {
			o.lead(r, c)
		}
		for _, old := range mbbClusters {
			if old != c {
				o.tell(cds, []string{old})
				o.tell(eds, []string{old})
			}
		}
	}
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
	gone := slices.DeleteFunc(slices.Clone(mbbClusters), func(n string) bool { return n == to })
	answer(cds, nil, cluster(to, o.v))
	answer(eds, gone, endpoints(to, o.v))
	var routes []proto.Message
	for _, r := range mbbRoutes {
		o.to[r] = to
		routes = append(routes, route(r, to))
	}
	answer(rds, nil, routes...)
}

// mover is a client that is moved about by a careful origin.
type mover struct {
	*actor
	broken atomic.Pointer[string]
}

func newMover(t *rapid.T, w *world, o *careful, i int) *mover {
	a := &mover{actor: &actor{model: o.model, variant: rapid.SampledFrom([]xdstest.Variant{xdstest.SotW, xdstest.Delta}).Draw(t, "variant"), readable: make(chan struct{})}}
	close(a.readable)
	a.Auto = xdstest.StartAuto(t, xdstest.AutoConfig{
		Addr: w.addr, DialOptions: []grpc.DialOption{w.net.Option()}, Variant: a.variant,
		Node: xdstest.Node(fmt.Sprint("client-", i), "red"), BeforeRead: a.beforeRead, BeforeAck: a.look,
	})
	a.wants = map[string]map[string]bool{cds: {}, eds: {}, rds: {}}
	if rapid.Bool().Draw(t, "everything") {
		a.wants[cds]["*"] = true
		a.Subscribe(cds)
	} else {
		a.want(cds, mbbClusters...)
	}
	a.want(eds, mbbClusters...)
	a.settle(t) // routes may come before clusters of which nothing is known yet
	a.want(rds, mbbRoutes...)
	return a
}

func (a *mover) want(typeURL string, names ...string) {
	for _, n := range names {
		a.wants[typeURL][n] = true
	}
	a.Subscribe(typeURL, names...)
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
	switch rapid.SampledFrom([]string{"slow", "slow", "slow", "again", "route", "cluster", "reconnect", "read", "read", "nothing", "nothing"}).Draw(t, "step") {
	case "slow":
		a.read(false)
	case "again":
		if a.wants[cds]["*"] {
			a.Subscribe(cds, "*")
		} else {
			a.Subscribe(cds, rapid.SampledFrom(mbbClusters).Draw(t, "again"))
		}
	case "route":
		r := rapid.SampledFrom(mbbRoutes).Draw(t, "name")
		if a.wants[rds][r] {
			delete(a.wants[rds], r)
			a.Unsubscribe(rds, r)
		} else {
			a.want(rds, r)
		}
	case "cluster":
		a.want(cds, rapid.SampledFrom(mbbClusters).Draw(t, "name"))
	case "reconnect": // SotW sees the new state alone after that
		if a.variant.Delta {
			a.Reconnect()
		}
	case "read":
		for _, a := range all {
			a.catchUp(t)
		}
	}
}

// catchUp waits until the client has all that there is.
func (a *mover) catchUp(t *rapid.T) {
	a.read(true)
	a.settle(t)
	if wrong := a.broken.Load(); wrong != nil {
		t.Fatalf("%s: %s\n%v", a.variant, *wrong, a.Auto)
	}
}
