package relay_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// guarded is a tier of one node with a removal guard, before a real control plane.
type guarded struct {
	*tierRig

	cp *xdstest.ControlPlane
	c  *xdstest.Auto
}

const hold = 5 * time.Minute

func newGuarded(t *testing.T, variant config.Variant) *guarded {
	t.Helper()
	network := xdstest.NewMemory()
	w := &guarded{cp: network.NewLenientControlPlane(t, nil)}
	w.tierRig = newTierRig(t, network, 1, func(cfg *config.Config) {
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.cp.Addr()}, variant
		cfg.RemovalGuard.MaxPercent, cfg.RemovalGuard.Hold = 50, hold
	})
	return w
}

// inhabited is newGuarded with ten clusters, and a client.
func inhabited(t *testing.T, variant config.Variant) *guarded {
	t.Helper()
	w := newGuarded(t, variant)
	w.serve("1", 10)
	w.c = w.newcomer("first")
	return w
}

// serve makes the control plane serve so many clusters.
func (w *guarded) serve(version string, n int) {
	var all []proto.Message
	for i := range n {
		all = append(all, xdstest.Cluster(fmt.Sprint("c", i), time.Second))
	}
	w.cp.SetSnapshotOf(w.t, []string{xdstest.ClusterType}, "red", version, all...)
}

func (w *guarded) newcomer(id string) *xdstest.Auto {
	c := w.client(w.names[0], id, "red", xdstest.Delta)
	c.Subscribe(xdstest.ClusterType)
	return c
}

// holds waits until the clients hold so many clusters, a new one too.
func (w *guarded) holds(when string, n int) {
	w.t.Helper()
	for _, c := range []*xdstest.Auto{w.c, w.newcomer(when)} {
		c.WaitFor(w.t, fmt.Sprintf("%d clusters %s", n, when), func() bool { return len(c.Held(xdstest.ClusterType)) == n })
	}
}

// TestGuardAndRecovery: K16: the control plane is empty by mistake and put right inside
// the hold, on the stream that heard of the removals or on another one. When the hold ends
// nothing is removed, since the control plane serves it.
func TestGuardAndRecovery(t *testing.T) {
	for name, mistake := range map[string]func(w *guarded){
		"put right on the stream": func(w *guarded) {
			w.serve("2", 1)
			w.pass(time.Minute)
			w.serve("3", 10)
		},
		"put right by a restart": func(w *guarded) {
			w.serve("2", 1)
			w.pass(time.Minute)
			w.cp.Stop()
			w.serve("1", 10)
			w.start()
		},
		"empty after a restart, put right by another": func(w *guarded) {
			w.cp.Stop()
			w.serve("2", 0)
			w.start()
			w.pass(time.Minute)
			w.cp.Stop()
			w.serve("1", 10)
			w.start()
		},
		"restarted while it is empty": func(w *guarded) {
			w.serve("2", 0)
			w.pass(30 * time.Second)
			w.cp.Stop()
			w.start()
			w.pass(30 * time.Second)
			w.serve("3", 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			originVariants(t, func(t *testing.T, variant config.Variant) {
				synctest.Test(t, func(t *testing.T) {
					w := inhabited(t, variant)
					w.holds("at first", 10)
					mistake(w)
					w.pass(time.Minute)
					w.holds("after it was put right", 10)
					w.pass(2 * hold)
					w.holds("after the hold", 10)
					w.serve("4", 9) // nothing is held back any more
					w.holds("after a small removal", 9)
				})
			})
		})
	}
}

// TestGuardKeepsChildren: K16, E8: while the removal of clusters or listeners is held back,
// what these refer to stays, too, also where the control plane removes it first, or makes
// it empty: new clients get a configuration that works. In the end all of it goes.
func TestGuardKeepsChildren(t *testing.T) {
	const n = 4
	full := func(w *guarded) (all []proto.Message) {
		for i := range n {
			name := fmt.Sprint("c", i)
			all = append(all, xdstest.Cluster(name, time.Second), xdstest.Endpoints(name, "127.0.0.1:1"),
				xdstest.Listener(fmt.Sprint("l", i), fmt.Sprint("127.0.0.1:", 80+i), fmt.Sprint("r", i)), xdstest.Route(fmt.Sprint("r", i), name))
		}
		return all
	}
	types := []string{xdstest.ClusterType, xdstest.EndpointType, xdstest.ListenerType, xdstest.RouteType}
	set := func(w *guarded, version string, all ...proto.Message) {
		w.cp.SetSnapshotOf(w.t, types, "red", version, all...)
	}
	only := func(all []proto.Message, types ...string) []proto.Message {
		return slices.DeleteFunc(all, func(m proto.Message) bool { return !slices.Contains(types, xdstest.TypeOf(m)) })
	}
	var empty []proto.Message // of what can only be emptied in SotW
	for i := range n {
		empty = append(empty, xdstest.Endpoints(fmt.Sprint("c", i)))
	}
	for name, lose := range map[string]func(w *guarded){
		"all at once":           func(w *guarded) { set(w, "2") },
		"endpoints are emptied": func(w *guarded) { set(w, "2", empty...) },
		"endpoints first": func(w *guarded) {
			set(w, "2", only(full(w), xdstest.ClusterType, xdstest.ListenerType, xdstest.RouteType)...)
			w.pass(time.Second)
			set(w, "3")
		},
		"endpoints are emptied first": func(w *guarded) {
			set(w, "2", append(only(full(w), xdstest.ClusterType, xdstest.ListenerType, xdstest.RouteType), empty...)...)
			w.pass(time.Second)
			set(w, "3", empty...)
		},
		"clusters first": func(w *guarded) {
			set(w, "2", only(full(w), xdstest.EndpointType, xdstest.ListenerType, xdstest.RouteType)...)
			w.pass(time.Second)
			set(w, "3")
		},
		"listeners first": func(w *guarded) {
			set(w, "2", only(full(w), xdstest.EndpointType, xdstest.ClusterType, xdstest.RouteType)...)
			w.pass(time.Second)
			set(w, "3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			originVariants(t, func(t *testing.T, variant config.Variant) {
				synctest.Test(t, func(t *testing.T) {
					w := newGuarded(t, variant)
					set(w, "1", full(w)...)
					everything := func(id string, v xdstest.Variant) *xdstest.Auto {
						c := w.client(w.names[0], id, "red", v)
						c.Subscribe(xdstest.ClusterType)
						c.Subscribe(xdstest.ListenerType)
						for i := range n {
							c.Subscribe(xdstest.EndpointType, fmt.Sprint("c", i))
							c.Subscribe(xdstest.RouteType, fmt.Sprint("r", i))
						}
						return c
					}
					works := func(c *xdstest.Auto) bool {
						for _, u := range types {
							if len(c.Held(u)) != n {
								return false
							}
						}
						for i := range n {
							var set endpointv3.ClusterLoadAssignment
							if err := proto.Unmarshal(c.Held(xdstest.EndpointType)[fmt.Sprint("c", i)].Body, &set); err != nil || len(set.GetEndpoints()[0].GetLbEndpoints()) == 0 {
								return false
							}
						}
						return true
					}
					clients := []*xdstest.Auto{everything("delta", xdstest.Delta), everything("sotw", xdstest.SotW)}
					for _, c := range clients {
						c.WaitFor(t, "all of it", func() bool { return works(c) })
					}
					lose(w)
					w.pass(time.Minute)
					clients = append(clients, everything("new delta", xdstest.Delta), everything("new sotw", xdstest.SotW))
					w.pass(time.Minute)
					for i, c := range clients {
						if !works(c) {
							t.Errorf("inside the hold client %d holds %v, %v, %v, %v", i, c.Held(xdstest.ClusterType), c.Held(xdstest.EndpointType), c.Held(xdstest.ListenerType), c.Held(xdstest.RouteType))
						}
					}
					w.pass(2 * hold)
					for i, c := range clients {
						if n := len(c.Held(xdstest.ClusterType)) + len(c.Held(xdstest.ListenerType)); n != 0 || works(c) {
							t.Errorf("after the hold client %d holds %d clusters and listeners", i, n)
						}
					}
					late := everything("late", xdstest.Delta)
					w.pass(time.Minute)
					if works(late) || len(late.Held(xdstest.ClusterType)) > 0 {
						t.Errorf("after the hold a new client holds %v", late.Held(xdstest.EndpointType))
					}
				})
			})
		})
	}
}

// TestGuardEnds: K16: what the control plane does not take back is removed at the end of
// the hold, also over a new stream.
func TestGuardEnds(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := inhabited(t, variant)
			w.holds("at first", 10)
			w.serve("2", 1)
			w.pass(time.Minute)
			w.cp.Stop()
			w.start()
			w.pass(time.Minute)
			w.holds("inside the hold", 10)
			w.pass(2 * hold)
			w.holds("after the hold", 1)
		})
	})
}

func (w *guarded) start() {
	if err := w.cp.Start(); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets time pass.
func (w *guarded) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}
