package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestTierRefusedAfterFlush: if Redis loses everything while a revision is refused and nothing happens to the
// key, the owner writes its record again, so that the next owner shows the revision to no client either.
func TestTierRefusedAfterFlush(t *testing.T) {
	for how, killed := range endings {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := quickPolicy()
				w := orderTier(t, 3, &policy)
				w.origin.Set("demo", w.revision("poison")...)
				w.waits("Held")
				<-time.After(time.Minute)
				before := w.nacks.Load()
				w.redis.Flush()
				<-time.After(10 * time.Second)
				w.ends(w.owner(), killed)
				<-time.After(time.Minute)
				if is := w.nacks.Load(); is != before || before == 0 {
					t.Errorf("clients rejected %d responses at first, and %d after the next owner has begun", before, is)
				}
				w.waits("Held")
				w.all("the stable revision", w.has("a"))
				w.checkAll()
			})
		})
	}
}

// TestTierWithdrawn: if the control plane takes a revision back while canaries have it, they get what the others
// have, on whichever node they are. It may have been restarted before, and the nodes may have been suspended:
// then it has nothing to send for most types. One cluster was removed in the revision.
func TestTierWithdrawn(t *testing.T) {
	only := map[string][]string{"all nodes have clients": nil, "only the other nodes have clients": {[]string{"a", "b", "c"}[ownerOf("demo", "a", "b", "c")]}}
	for clients, without := range only {
		for _, trouble := range []string{"no trouble", "restarted", "suspended"} {
			t.Run(fmt.Sprintf("%s, %s", clients, trouble), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					policy := quickPolicy()
					policy.Steps = []config.RolloutStep{{Share: 0.5, Bake: time.Hour}}
					w := orderTier(t, 3, &policy, without...)
					hasOnly := func(cluster string) func(*xdstest.Auto) bool {
						return func(c *xdstest.Auto) bool {
							held := c.Held(xdstest.ClusterType)
							_, has := held[cluster]
							return has && len(held) == 1
						}
					}
					w.origin.Set("demo", w.revision("b")[:2]...)
					w.origin.Remove("demo", xdstest.ClusterType, "a")
					<-time.After(time.Minute)
					w.waits("Stepping Bake")
					if n := w.count(hasOnly("b")); n == 0 || n == len(w.clients) {
						t.Fatalf("%d of %d clients have the revision, expected some", n, len(w.clients))
					}
					if trouble != "no trouble" {
						w.origin.Stop()
						if trouble == "suspended" {
							for _, name := range w.names {
								w.machines[name].Slept(time.Now().Add(-10 * time.Second))
							}
						}
						<-time.After(3 * time.Second)
						if err := w.origin.Start(); err != nil {
							t.Fatal(err)
						}
						<-time.After(time.Minute)
						w.waits("Stepping Bake")
					}
					w.origin.Set("demo", w.revision("a")[0])
					w.origin.Remove("demo", xdstest.ClusterType, "b")
					<-time.After(time.Minute)
					w.waits("Idle")
					w.all("what the control plane has", hasOnly("a"))
					w.checkAll()
				})
			})
		}
	}
}

// TestTierCutOffCanaries: nodes whose clients have a revision are cut off from the owner of the key, or are
// cut off from the others when another node becomes the owner. Their clients keep the revision, and no other
// client gets it in their place.
func TestTierCutOffCanaries(t *testing.T) {
	stalled := xdstest.Way{Stalled: true}
	for name, fault := range map[string]func(w *orderedTier, others []string){
		"from the owner": func(w *orderedTier, others []string) {
			for _, n := range others {
				w.network.SetWay(n, w.owner(), stalled)
				w.network.SetWay(w.owner(), n, stalled)
			}
		},
		"to the owner": func(w *orderedTier, others []string) {
			for _, n := range others {
				w.network.SetWay(n, w.owner(), xdstest.Way{Refused: true})
			}
		},
		"from the next owner": func(w *orderedTier, others []string) {
			for _, n := range w.names {
				for _, m := range w.names {
					w.network.SetWay(n, m, stalled)
				}
			}
			w.ends(w.owner(), true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := quickPolicy()
				policy.Steps = []config.RolloutStep{{Share: 0.5, Bake: time.Hour}}
				owner := []string{"a", "b", "c"}[ownerOf("demo", "a", "b", "c")]
				w := orderTier(t, 3, &policy, owner)
				w.origin.Set("demo", w.revision("b")...)
				<-time.After(time.Minute)
				w.waits("Stepping Bake")
				<-time.After(time.Minute)
				canaries := w.count(w.has("b"))
				if is := w.shown(owner).Rollout; canaries == 0 || canaries != is.Canaries {
					t.Fatalf("%d clients have the revision, expected %d", canaries, is.Canaries)
				}
				var others []string
				for _, n := range w.names {
					if n != owner {
						others = append(others, n)
					}
				}
				for i := range 3 {
					w.joins(owner, fmt.Sprintf("late-%d", i))
				}
				fault(w, others)
				<-time.After(2 * time.Minute)
				if n := w.count(w.has("b")); n != canaries {
					t.Errorf("%d clients have the revision, expected the %d canaries", n, canaries)
				}
				for _, n := range w.names {
					for _, m := range w.names {
						w.network.SetWay(n, m, xdstest.Way{})
					}
				}
				<-time.After(2 * time.Minute)
				if n := w.count(w.has("b")); n != canaries {
					t.Errorf("%d clients have the revision after the fault, expected the %d canaries", n, canaries)
				}
				w.waits("Stepping Bake")
				w.checkAll()
			})
		})
	}
}

// TestTierEndedCanaries: the only node with canaries ends, and its clients with it. Once it is no member of the tier
// any more, another client gets the revision, so the rollout goes on.
func TestTierEndedCanaries(t *testing.T) {
	for how, killed := range endings {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := quickPolicy()
				policy.Steps = []config.RolloutStep{{Share: 0.5, Bake: time.Hour}}
				w := orderTier(t, 3, &policy, "a", "b", "c")
				owner, other := w.owner(), w.follower()
				w.joins(other, "canary-0")
				w.joins(other, "canary-1")
				w.all("the first configuration", w.has("a"))
				w.origin.Set("demo", w.revision("b")...)
				<-time.After(time.Minute)
				w.waits("Stepping Bake")
				canaries := w.clients
				w.clients, w.clientOf[other] = nil, nil
				for i := range 4 {
					w.joins(owner, fmt.Sprintf("late-%d", i))
				}
				w.ends(other, killed) // before its clients: they would count as lost
				for _, c := range canaries {
					c.Close()
				}
				<-time.After(time.Minute)
				if n := w.count(w.has("b")); n == 0 || n == len(w.clients) {
					t.Errorf("%d of %d clients have the revision, expected some", n, len(w.clients))
				}
				w.waits("Stepping Bake")
				w.checkAll()
			})
		})
	}
}

// TestTierOwnerAgain: a node that has decided about a revision of a key, and owns it again after another node
// has, judges the next revision only by what clients do with that one.
func TestTierOwnerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := quickPolicy()
		policy.Steps = []config.RolloutStep{{Share: 0.5, Bake: time.Hour}}
		w := orderTier(t, 3, &policy)
		other := w.owner()
		w.ends(other, true)
		w.origin.Set("demo", w.revision("poison")...)
		w.waits("Held")
		w.origin.Set("demo", w.revision("a")...)
		w.origin.Remove("demo", xdstest.ClusterType, "poison")
		w.origin.Remove("demo", xdstest.EndpointType, "poison")
		<-time.After(time.Minute)
		w.waits("Idle")
		w.begin(other)
		w.names = append(w.names, other)
		<-time.After(time.Minute)
		w.origin.Set("demo", w.revision("b")...)
		<-time.After(time.Minute)
		w.waits("Stepping Bake")
		w.ends(other, true)
		<-time.After(time.Minute)
		if is := w.shown(w.names[0]).Rollout; is.State != "Stepping Bake" {
			t.Errorf("the state is %s, expected Stepping Bake: %v", is.State, is.Findings)
		}
		w.checkAll()
	})
}

// TestTierAllKilled: all nodes of a tier are killed soon after the first clients of a key have connected, or after
// Redis has lost everything, and the control plane changes before they start again. That is a revision like any
// other, and one client gets it: the last known good content is what it is compared with.
func TestTierAllKilled(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		t.Run(fmt.Sprintf("flushed=%t", flushed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { allKilled(t, flushed) }) })
	}
}

func allKilled(t *testing.T, flushed bool) {
	policy := quickPolicy()
	w := orderTier(t, 3, &policy, "a", "b", "c")
	for _, name := range w.names {
		w.joins(name, "client-"+name)
	}
	<-time.After(5 * time.Second)
	if flushed {
		<-time.After(5 * time.Minute)
		w.redis.Flush()
		<-time.After(10 * time.Second)
	}
	for _, name := range w.names {
		m := w.machines[name]
		m.host.Vanish(true)
		m.stop()
		<-m.done //nolint:errcheck // its ports are gone with the machine
	}
	w.origin.Set("demo", w.revision("poison")...)
	for _, name := range w.names {
		w.begin(name)
		<-time.After(time.Second)
	}
	<-time.After(time.Minute)
	if n := w.nacks.Load(); n != 1 {
		t.Errorf("clients have rejected %d responses, expected that of one client", n)
	}
	w.all("the stable revision", w.has("a"))
	w.waits("Held")
	w.checkAll()
}

// TestTierOwnerStopped: the owner of a key is stopped while canaries have a revision, another node continues, and the
// first one owns the key again. Whenever the control plane takes the revision back after that, all clients return.
func TestTierOwnerStopped(t *testing.T) {
	for back := time.Duration(0); back < 6*time.Second; back += 750 * time.Millisecond {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := quickPolicy()
				policy.Steps = []config.RolloutStep{{Share: 0.5, Bake: time.Hour}}
				owner := []string{"a", "b", "c"}[ownerOf("demo", "a", "b", "c")]
				w := orderTier(t, 3, &policy)
				w.origin.Set("demo", w.revision("b")...)
				<-time.After(time.Minute)
				w.waits("Stepping Bake")
				ways := func(is xdstest.Way) {
					for _, n := range []string{"a", "b", "c", "redis", "origin"} {
						if n != owner {
							w.network.SetWay(n, owner, is)
							w.network.SetWay(owner, n, is)
						}
					}
				}
				ways(xdstest.Way{Stalled: true})
				<-time.After(20 * time.Second)
				ways(xdstest.Way{})
				w.machines[owner].Slept(time.Now().Add(-20 * time.Second))
				<-time.After(back)
				w.origin.Set("demo", w.revision("a")...)
				w.origin.Remove("demo", xdstest.ClusterType, "b")
				w.origin.Remove("demo", xdstest.EndpointType, "b")
				<-time.After(time.Minute)
				if n := w.count(w.has("b")); n != 0 {
					t.Errorf("%d clients still have the revision", n)
				}
				w.checkAll()
			})
		})
	}
}
