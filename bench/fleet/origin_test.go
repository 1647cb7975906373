package fleet

import (
	"context"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/floor"
	"xdsrelay/bench/origin"
	"xdsrelay/relay/xdstest"
)

// serve lets a server listen until the test ends.
func serve(t *testing.T, s drive.Server) *drive.Driver {
	t.Helper()
	d, err := drive.New(s, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func serveOrigin(t *testing.T, spec content.Spec) *drive.Driver {
	t.Helper()
	o, err := origin.New(origin.Config{Spec: spec, Cache: origin.Linear})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, o)
}

func newFleet(t *testing.T, cfg Config) *Fleet {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// patience bounds what a fleet is waited for.
func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// connect lets all clients connect and get everything.
func connect(t *testing.T, f *Fleet) {
	t.Helper()
	if r, err := f.Connect(patience(t), 0, Synced); err != nil || !r.Done {
		t.Fatalf("connect: %+v, %v; %+v", r, err, f.Stats())
	}
}

// await waits until all clients hold a change.
func await(t *testing.T, f *Fleet, revision uint64, c content.Change) {
	t.Helper()
	if r, err := f.Await(patience(t), revision, &c); err != nil || !r.Done {
		t.Fatalf("await revision %d: %+v, %v; %+v", revision, r, err, f.Stats())
	}
}

// well fails the test if something was not as it should be.
func well(t *testing.T, f *Fleet) Stats {
	t.Helper()
	s := f.Stats()
	for k, v := range s.Violations {
		t.Errorf("violated %d times: %s: %s", v.Count, k, v.First)
	}
	for k, e := range s.Ends {
		t.Errorf("%d × ended: %s: %s", e.Count, k, e.First)
	}
	return s
}

// TestOrigin holds that clients of all variants get along with a go-control-plane
// server, and that they count right.
func TestOrigin(t *testing.T) {
	spec := content.Spec{Keys: 2, Clusters: 5, Listeners: 2}
	tests := []struct {
		name string
		cfg  Config
	}{
		{"delta", Config{Delta: true}},
		{"delta, a stream per type", Config{Delta: true, PerType: true}},
		{"state of the world", Config{}},
		{"state of the world, a stream per type", Config{PerType: true}},
		{"shared connections", Config{Delta: true, StreamsPerConn: 4}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := serveOrigin(t, spec)
			test.cfg.Addrs, test.cfg.Clients, test.cfg.Content = []string{o.Addr()}, 10, spec
			f := newFleet(t, test.cfg)
			connect(t, f)
			if s := well(t, f); s.FirstSync.Count != 10 || s.Connected != 10 || s.Synced != 10 {
				t.Errorf("after the first sync: %+v", s)
			}
			xdstest.Eventually(t, "an ACK for each response", func() bool { s := f.Stats(); return s.ACKs == s.Responses })
			f.Reset()
			changes := []content.Change{
				{Kind: content.One}, {Kind: content.One, Type: content.EndpointURL},
				{Kind: content.Burst, Resources: 3}, {Kind: content.Full},
			}
			for _, c := range changes {
				made, err := o.Change(c)
				if err != nil {
					t.Fatal(err)
				}
				await(t, f, made.Revision, c)
			}
			// One value for each client, change and type of the change.
			if s := well(t, f); s.Propagation.Count != 10*(1+1+1+4) || s.Propagation.P50 <= 0 {
				t.Errorf("%d values of propagation around %g ms, expected 70", s.Propagation.Count, s.Propagation.P50)
			}
		})
	}
}

// TestFloor holds that clients cannot tell the floor from a server, and that
// they read its plain TCP, too.
func TestFloor(t *testing.T) {
	spec := content.Spec{Keys: 1, Clusters: 50}
	for _, transport := range []floor.Transport{floor.GRPC, floor.TCP} {
		t.Run(string(transport), func(t *testing.T) {
			server, err := floor.New(floor.Config{Spec: spec, Delta: true, Sync: true, Transport: transport})
			if err != nil {
				t.Fatal(err)
			}
			d := serve(t, server)
			f := newFleet(t, Config{
				Addrs: []string{d.Addr()}, Clients: 5, Content: spec, Delta: true, Plain: transport == floor.TCP,
			})
			connect(t, f)
			plan, err := d.Start(drive.Schedule{
				Change: content.Change{Kind: content.One}, Interval: 2 * time.Millisecond, Count: 20,
			})
			if err != nil {
				t.Fatal(err)
			}
			await(t, f, plan.Last.Revision, content.Change{Kind: content.One})
			if s := well(t, f); s.Propagation.Count != 5*20 || s.Resent != 0 {
				t.Errorf("%d values of propagation and %d resources resent, expected 100 and none", s.Propagation.Count, s.Resent)
			}
		})
	}
}
