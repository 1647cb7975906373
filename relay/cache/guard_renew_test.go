package cache

import (
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestUnjudgedSets: K16: a set that the removal guard of another node could compare with nothing
// removes nothing from a node that would hold the removal back, nor what such resources refer to. A
// set that is judged does, and so does one that lacks little.
func TestUnjudgedSets(t *testing.T) {
	cluster := func(name string) *resource.Resource {
		return resource.New(resource.Resource{Name: name, Body: []byte("1"), Endpoints: name})
	}
	all := []*resource.Resource{cluster("a"), cluster("b"), cluster("c"), cluster("d")}
	for name, tc := range map[string]struct {
		left     int // of these, on the other node
		unjudged bool
		third    int // of these, on another one, judged and of half an hour ago; -1 for no node
		want     int
		ends     []string // endpoints
	}{
		"nothing, judged":        {0, false, -1, 0, []string{"-a", "b"}},
		"nothing, unjudged":      {0, true, -1, 4, []string{"a", "b"}},
		"too little":             {1, true, -1, 4, []string{"a", "b"}},
		"too little, judged":     {1, false, -1, 1, []string{"-a", "b"}},
		"most of it":             {3, true, -1, 3, []string{"-a", "b"}},
		"everything":             {4, true, -1, 4, []string{"-a", "b"}},
		"everything, judged":     {4, false, -1, 4, []string{"-a", "b"}},
		"most of it, judged":     {3, false, -1, 3, []string{"-a", "b"}},
		"a third node is judged": {0, true, 1, 1, []string{"a", "b"}},
		"half of it":             {2, true, -1, 2, []string{"-a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, MaxRemovalPercent: 50, RemovalHold: time.Minute}, func(t *testing.T, w *world) {
				began := time.Now()
				pass(time.Hour)
				w.feed.Down(errOut)
				w.group.RestoreFrom(holds(clusters, true, began, all...))
				w.group.RestoreFrom(holds(endpoints, false, began, res("a", "1"), res("b", "1")))
				w.client(clusters, true)
				c := w.client(endpoints, false, "a", "b")
				theirs := holds(clusters, true, time.Now(), all[:tc.left]...)
				theirs.Unjudged = tc.unjudged
				gone := holds(endpoints, false, time.Now())
				gone.Absent = []string{"a"}
				others := []Snapshot{theirs, gone}
				if tc.third >= 0 {
					others = append(others, holds(clusters, true, began.Add(30*time.Minute), all[:tc.third]...))
				}
				w.group.Renew(others)
				if got := w.group.lookup(clusters).info().Resources; got != tc.want {
					t.Errorf("%d clusters are left, expected %d", got, tc.want)
				}
				expectSees(t, c, tc.ends...)
			})
		})
	}
}

// TestUnjudged: K16: the first complete set of a node is unjudged for as long as a hold of the
// guard would last, if the node had nothing to compare it with.
func TestUnjudged(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  Config
		then func(w *world)
		want bool
	}{
		"the first one":     {Config{MaxRemovalPercent: 50, RemovalHold: time.Minute}, func(*world) {}, true},
		"no time of a hold": {Config{MaxRemovalPercent: 50}, func(*world) { pass(24 * time.Hour) }, true},
		"no guard":          {Config{}, func(*world) {}, false},
		"a hold ago":        {Config{MaxRemovalPercent: 50, RemovalHold: time.Minute}, func(*world) { pass(time.Minute) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, tc.cfg, func(t *testing.T, w *world) {
				w.client(clusters, true)
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Full: true})
				tc.then(w)
				if k := w.group.Snapshots(); len(k) != 1 || k[0].Unjudged != tc.want {
					t.Errorf("%+v", k)
				}
			})
		})
	}
	t.Run("compared", func(t *testing.T) {
		inTime(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute}, func(t *testing.T, w *world) {
			w.client(clusters, true)
			w.feed.Down(errOut)
			w.group.RestoreFrom(holds(clusters, true, time.Now(), res("a", "1"), res("b", "1")))
			w.feed.TakeDemand(true, true)
			w.feed.Up()
			w.feed.Apply(Update{Type: clusters, Full: true})
			if k := w.group.Snapshots(); len(k) != 1 || k[0].Unjudged || !k[0].HeldBack {
				t.Errorf("%+v", k)
			}
		})
	})
}
