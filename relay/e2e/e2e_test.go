//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"xdsrelay/relay/xdstest"
)

const (
	// service is the name that the clients resolve, target how they ask for it.
	service = "svc"
	target  = "xds:///" + service
	// cluster is every client's node.cluster and with it the aggregation key.
	cluster = "shop"
	// outage is how long the control plane stays away.
	outage = 10 * time.Second
	// patience is how long a change may take to reach a client, whatever backoff
	// runs when it is made.
	patience = 60 * time.Second
)

// TestForeignClients is the main job as an operator sees it: xDS clients of
// three languages behind a relay follow the control plane, do not notice that
// it is gone, even those that start meanwhile (K14), and do not notice that the
// relay starts anew, knowing nothing (K13). From first to last no call may fail.
func TestForeignClients(t *testing.T) {
	for _, variant := range []string{"sotw", "delta"} {
		t.Run("upstream="+variant, func(t *testing.T) { testForeignClients(t, variant) })
	}
}

func testForeignClients(t *testing.T, variant string) {
	ctx := contextOf(t)
	first, second := xdstest.NewBackend(t, "first"), xdstest.NewBackend(t, "second")
	// By default it serves a node what its cluster's snapshot holds, so that it
	// has to be told the cluster (K4) to serve anything at all.
	origin := xdstest.NewControlPlane(t, nil)
	version := 0
	pointTo := func(backend *xdstest.Backend) {
		version++
		origin.SetSnapshot(t, cluster, strconv.Itoa(version), xdstest.GRPCService(service, backend.Addr())...)
	}
	pointTo(first)

	node := relayNode{
		program: program(t),
		listen:  freeAddress(t),
		admin:   freeAddress(t),
		origin:  origin.Addr(),
		variant: variant,
		key:     "node.cluster",
	}
	relay := node.start(ctx, t, "the relay")
	var fleet fleet

	step(t, "clients start", func() error {
		fleet.start(t, node.listen, "early")
		return fleet.reach(ctx, first)
	})
	step(t, "an endpoint change is followed", func() error {
		pointTo(second)
		return fleet.reach(ctx, second)
	})
	step(t, fmt.Sprintf("the control plane is away for %v and clients start meanwhile", outage), func() error {
		origin.Stop()
		over := time.After(outage)
		before := fleet.calls()
		fleet.start(t, node.listen, "late")
		if err := fleet.reach(ctx, second); err != nil {
			return err
		}
		<-over
		return fleet.calledSince(before)
	})
	step(t, "the control plane comes back and is followed", func() error {
		if err := origin.Start(); err != nil {
			return err
		}
		pointTo(first)
		return fleet.reach(ctx, first)
	})
	step(t, "the relay dies, starts again, and is followed", func() error {
		relay.kill()
		relay = node.start(ctx, t, "the relay, started again")
		pointTo(second)
		return fleet.reach(ctx, second)
	})
	step(t, "one stream to the control plane serves all clients", func() error {
		if open := origin.Counts().Open; open != 1 {
			return fmt.Errorf("%d streams are open for %d clients of one key, want 1", open, len(fleet))
		}
		return nil
	})
	step(t, "no call has failed", fleet.unharmed)
	step(t, "the relay stops when it is told to", func() error {
		fleet.end()
		return relay.terminate()
	})
}

// step runs one part of the story and ends the test where it fails.
func step(t *testing.T, what string, run func() error) {
	t.Helper()
	began := time.Now()
	if err := run(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	t.Logf("%s: held after %v", what, time.Since(began).Round(time.Millisecond))
}

// contextOf returns the test's context, over early enough before the deadline
// of the whole run for the test to clean up behind it.
func contextOf(t *testing.T) context.Context {
	deadline, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), deadline.Add(-stopWithin))
	t.Cleanup(cancel)
	return ctx
}

// fleet is the clients of one test. It belongs to the test's goroutine.
type fleet []*client

// start adds one new client of each kind.
func (f *fleet) start(t *testing.T, server, generation string) {
	t.Helper()
	for kind := range kinds {
		*f = append(*f, startClient(t, kind, kind+"-"+generation, server))
	}
}

// reach waits until every client's calls are answered by backend. The first
// client that fails ends the wait for all.
func (f *fleet) reach(ctx context.Context, backend *xdstest.Backend) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range *f {
		group.Go(func() error { return c.reaches(ctx, backend.Name) })
	}
	return group.Wait()
}

// calls returns how many calls of each client have succeeded.
func (f *fleet) calls() map[string]int {
	counts := map[string]int{}
	for _, c := range *f {
		counts[c.name] = c.succeeded()
	}
	return counts
}

// calledSince returns an error unless each client of an earlier calls() has
// gone on calling.
func (f *fleet) calledSince(before map[string]int) error {
	const atLeast = 10 // in the time of an outage; undisturbed it is about a hundred
	for name, now := range f.calls() {
		was, ok := before[name]
		if ok && now-was < atLeast {
			return fmt.Errorf("%s: only %d calls succeeded meanwhile, want at least %d", name, now-was, atLeast)
		}
	}
	return nil
}

// unharmed returns an error if a client has seen a call fail, or has ended.
func (f *fleet) unharmed() error {
	for _, c := range *f {
		if err := c.unharmed(); err != nil {
			return err
		}
	}
	return nil
}

// end ends every client.
func (f *fleet) end() {
	for _, c := range *f {
		c.proc.kill()
	}
}
