package fanout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/xdstest"
)

// found formats how a client stands with endpoints and clusters: "a name SYNCED current".
func found(c Client, names ...string) string {
	var all []string
	c.Find(func(*cache.Table) []string { return names }, func(f *FoundResource) bool {
		text := fmt.Sprintf("%s %s %s %s", f.Name, f.Interest, f.State, f.Holding)
		if f.Removed {
			text += " removed"
		}
		if f.State != Synced && f.Waiting != "" {
			text += " (" + f.Waiting + ")"
		}
		if f.Nack != nil {
			text += ": " + f.Nack.Message
		}
		all = append(all, text)
		return true
	})
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestFind: of one resource, a client has what it has acknowledged of it, whatever became of others of the type.
// A client that does not subscribe to it is not found.
func TestFind(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		expect := func(want string, names ...string) {
			t.Helper()
			synctest.Wait()
			if got := found(w.only(), names...); got != want {
				t.Errorf("%q: got %q, expected %q", names, got, want)
			}
		}
		s.Subscribe(cds)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		expect("", "other")
		expect("a name NOT_SENT none (control plane has not answered)", "a")
		w.serve("v1", cds, xdstest.Cluster("a", 1))
		s.Ack(s.Recv(t))
		w.serve("v1", eds, xdstest.Synthetic(eds, "a", 1), xdstest.Synthetic(eds, "b", 1))
		f := s.Recv(t)
		expect("a name STALE none (awaiting ACK), a wildcard SYNCED current", "a")
		s.Ack(f)
		expect("a name SYNCED current, a wildcard SYNCED current, b name SYNCED current", "a", "b", "c")
		w.serve("v2", eds, xdstest.Synthetic(eds, "a", 2))
		s.Nack(s.Recv(t), "no")
		expect("a name NACKED older (held after NACK): no, a wildcard SYNCED current", "a")
		expect("b name SYNCED current", "b")
	})
}

// TestFindRemoved: a removal counts until the client has acknowledged it.
func TestFindRemoved(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, xdstest.Cluster("a", 1), xdstest.Cluster("b", 1))
		s.Ack(s.Recv(t))
		synctest.Wait()
		w.serve("v2", cds, xdstest.Cluster("b", 1))
		f := s.Recv(t)
		synctest.Wait()
		if got, want := found(w.only(), "a"), "a wildcard STALE older removed (awaiting ACK)"; got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
		s.Ack(f)
		synctest.Wait()
		if got := found(w.only(), "a"); got != "" {
			t.Errorf("after the ACK: %q", got)
		}
	})
}

const foundName = "cluster-000007"

// TestFindCost: a client without the resource costs no memory, and one with it a little, whatever the number of
// its other resources.
func TestFindCost(t *testing.T) {
	f := newFleet(t, 10, 10_000, true)
	client := client{f.streams[0]}
	for name, most := range map[string]float64{"": 0, "no such": 3, foundName: 3} {
		names, n := []string{name}, 0
		want := func(*cache.Table) []string {
			if name == "" {
				return nil
			}
			return names
		}
		if allocs := testing.AllocsPerRun(10, func() { client.Find(want, func(*FoundResource) bool { n++; return true }) }); allocs > most {
			t.Errorf("%q: %.0f allocations, expected %.0f at most", name, allocs, most)
		}
		if (n > 0) != (name == foundName) {
			t.Errorf("%q was found %d times", name, n)
		}
	}
}

// BenchmarkFind looks for a resource among 10,000 clients.
func BenchmarkFind(b *testing.B) {
	const clients = 10_000
	f := newFleet(b, clients, 10_000, true)
	names := []string{foundName}
	for b.Loop() {
		for _, s := range f.streams {
			client{s}.Find(func(*cache.Table) []string { return names }, func(*FoundResource) bool { return true })
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/clients, "ns/client")
}
