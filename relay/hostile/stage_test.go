package hostile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/fleet"
	"xdsrelay/bench/origin"
	"xdsrelay/relay/xdstest"
)

// spec is what the origin serves.
var spec = content.Spec{Keys: 4, Clusters: 4, Listeners: 2}

// stage is a node with an origin and its good clients.
type stage struct {
	setup
	ports

	origin    *drive.Driver
	fleets    []*fleet.Fleet
	good      *tls.Config // of the good clients; nil for plaintext
	bad       *tls.Config // of attackers that have a certificate, for [theKey]
	operators *tls.Config // of operators, where they need one
	process   *child      // the node; nil where that is in the test's own process
	before    footprint   // of the node, before the attack that runs
	results   []result
	changes   atomic.Int64
	small     atomic.Bool      // changes are of one endpoint resource of each key, instead of everything
	changing  sync.Mutex       // held while a change is made and reaches the good clients
	ramp      map[string]int64 // ends of good clients while they came, by kind: a busy machine lets some be late
}

// attack is something that clients of a stage do.
type attack struct {
	name string
	// run attacks until that has been refused, or is over, and leaves nothing open.
	run func(t *testing.T, s *stage)
	// waits says that most of its time is that of limits of the node, which pass for
	// other attacks at the same time.
	waits bool
	// memory and linger are what the node with the shipped configuration has of them in
	// the ordinary run, where small sizes and short times would not come near the shipped
	// ones; 0 for these.
	memory int64
	linger time.Duration
}

// withstandsAll runs attacks one after another; in the ordinary run those that wait are
// one, at the same time.
func (s *stage) withstandsAll(t *testing.T, lists ...[]attack) {
	t.Helper()
	var waiting []attack
	for _, a := range slices.Concat(lists...) {
		if a.waits && !*full {
			waiting = append(waiting, a)
			continue
		}
		s.withstands(t, a)
	}
	if len(waiting) > 0 {
		s.withstands(t, attack{name: "attacks that wait", run: func(t *testing.T, s *stage) {
			var all sync.WaitGroup
			for _, a := range waiting {
				all.Go(func() { t.Run(a.name, func(t *testing.T) { a.run(t, s) }) })
			}
			all.Wait()
		}})
	}
}

// newStage starts a node and lets the good clients come.
func newStage(t *testing.T, of setup) *stage {
	t.Helper()
	return newTLSStage(t, of, nil)
}

// newTLSStage is newStage with the authority of all certificates; nil for plaintext.
func newTLSStage(t *testing.T, of setup, mesh *xdstest.Authority) *stage {
	t.Helper()
	if mesh != nil {
		of.TLS = t.TempDir()
		mesh.WriteFiles(of.TLS, "127.0.0.1")
	}
	o, err := origin.New(origin.Config{Spec: spec, Cache: origin.Linear, Loads: of.Defaults})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{setup: of}
	t.Cleanup(func() { s.report(t) })
	if s.origin, err = drive.New(o, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.origin.Close)
	of.Origin = s.origin.Addr()
	if of.TLS != "" {
		s.good, s.bad = mesh.ClientTLS(mesh, goodName), mesh.ClientTLS(mesh, theKey)
		s.good.ServerName, s.bad.ServerName = "127.0.0.1", "127.0.0.1"
		s.good.NextProtos = []string{"h2"}
	}
	if *full || of.Defaults {
		s.ports, s.process = startChild(t, of)
	} else {
		s.ports = startNode(t, of.config())
	}
	s.populate(t)
	return s
}

// populate lets the good clients come.
func (s *stage) populate(t *testing.T) {
	t.Helper()
	for i, delta := range []bool{true, false} {
		f, err := fleet.New(fleet.Config{Addrs: []string{s.XDS}, Clients: good / 2, FirstClient: i * good / 2, Content: spec, Delta: delta, TLS: s.good, ConnectParallel: 8})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		s.fleets = append(s.fleets, f)
		ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
		r, err := f.Connect(ctx, 0, fleet.Synced)
		cancel()
		if err != nil || !r.Done {
			t.Fatalf("the good clients: %+v, %v; %+v", r, err, f.Progress())
		}
	}
	for range 3 {
		s.ramp = s.ends()
		if err := s.converges(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// withstands runs an attack, and holds what must be so meanwhile and afterwards.
func (s *stage) withstands(t *testing.T, a attack) {
	t.Helper()
	var began time.Time
	var changes int64
	var refused map[string]int
	t.Run(a.name, func(t *testing.T) {
		if s.process == nil || s.before == (footprint{}) {
			rest := s.before.upstream
			s.before = s.footprint(t) // the good clients learn, too, in this process
			if rest > 0 {             // a stream that asks for an unknown type once more may be open now
				s.before.upstream = rest
			}
		}
		began = time.Now()
		ctx, end := context.WithCancel(t.Context())
		changes = s.changes.Load()
		refused = refusalsIn(s.get(t, "/metrics"))
		var watch sync.WaitGroup
		defer watch.Wait() // also after t.Fatal in the attack
		defer end()
		watch.Go(func() {
			for ctx.Err() == nil {
				if err := s.converges(t.Context()); err != nil {
					t.Errorf("during the attack: %v", err)
					return
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
		a.run(t, s)
		end()
		watch.Wait()
		for s.changes.Load() < changes+2 && !t.Failed() {
			if err := s.converges(t.Context()); err != nil {
				t.Fatalf("after the attack: %v", err)
			}
		}
		s.unharmed(t)
	})
	if began.IsZero() {
		return // it was not chosen
	}
	over := time.Now()
	reached := s.changes.Load() - changes
	// Now that all of the attacker's is closed.
	after := s.recovers(t, a.name)
	s.results = append(s.results, result{
		attack: a.name, took: over.Sub(began), recovered: time.Since(over), changes: reached,
		refusals: since(refused, refusalsIn(s.get(t, "/metrics"))), before: s.before, after: after,
	})
	t.Logf("%s took %.1fs, and %.1fs to recover", a.name, over.Sub(began).Seconds(), time.Since(over).Seconds())
}

// converges makes a change at the origin, and waits until all good clients hold it.
func (s *stage) converges(parent context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	c := content.Change{Kind: content.Full}
	if s.small.Load() {
		c = content.Change{Kind: content.One, Type: content.EndpointURL}
	}
	made, err := s.origin.Change(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(parent, xdstest.Patience)
	defer cancel()
	for _, f := range s.fleets {
		r, err := f.Await(ctx, made.Revision, &c)
		if err == nil && !r.Done {
			err = fmt.Errorf("%d of %d good clients have not got revision %d within %v: %s", int64(r.Clients)-r.Synced, r.Clients, made.Revision, r.Elapsed, r.Waiting)
		}
		if err != nil {
			return errors.Join(err, s.wrongs())
		}
	}
	s.changes.Add(1)
	return nil
}

// wrongs is what went wrong with the good clients so far: streams that ended, and
// breaches of the protocol, among them names of another key.
func (s *stage) wrongs() (err error) {
	for _, f := range s.fleets {
		for k, v := range f.Progress().Violations {
			err = errors.Join(err, fmt.Errorf("good clients saw %d × %s: %s", v.Count, k, v.First))
		}
	}
	for k, n := range s.ends() {
		if n > s.ramp[k] {
			err = errors.Join(err, fmt.Errorf("%d connections or streams of good clients ended: %s", n-s.ramp[k], k))
		}
	}
	return err
}

// ends is how often connections and streams of good clients have ended, by kind.
func (s *stage) ends() map[string]int64 {
	all := make(map[string]int64)
	for _, f := range s.fleets {
		for k, e := range f.Progress().Ends {
			all[k] += e.Count
		}
	}
	return all
}

// unharmed holds that the good clients are all there and have seen nothing wrong.
func (s *stage) unharmed(t *testing.T) {
	t.Helper()
	if err := s.wrongs(); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.fleets {
		if p := f.Progress(); p.Connected != good/2 {
			t.Fatalf("%d good clients are connected, expected %d", p.Connected, good/2)
		}
	}
}
