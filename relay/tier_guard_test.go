package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
		cfg.Origin.Addresses, cfg.Origin.Variant = []string{w.cp.Addr()}, variant
		cfg.Cache.MaxRemovalPercent, cfg.Cache.RemovalHold = 50, hold
	})
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
					w := newGuarded(t, variant)
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

// TestGuardEnds: K16: what the control plane does not take back is removed at the end of
// the hold, also over a new stream.
func TestGuardEnds(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newGuarded(t, variant)
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
