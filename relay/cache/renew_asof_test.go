package cache

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/cache/link"
	"xdsrelay/relay/resource"
)

// TestSilentStreamConfirmsNothing: K12, K14: a stream on which nothing was received may have been
// dead from the start, so it confirms none of a node's content, however it ends: other nodes would
// take that for newer than what they received from the control plane meanwhile.
func TestSilentStreamConfirmsNothing(t *testing.T) {
	for name, end := range map[string]func(*world){
		"it breaks":                func(w *world) { w.feed.Down(errOut) },
		"another node is followed": func(w *world) { w.feed.Borrow(true) },
		"the key becomes idle":     func(w *world) { w.cache.Leave(w.group); pass(time.Minute) },
		"the process slept":        func(w *world) { w.cache.Slept(time.Now()); w.feed.Down(errOut) },
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
				w.client(clusters, true)
				w.feed.TakeDemand(true, false)
				w.feed.Up()
				w.apply(clusters, res("a", "1"))
				pass(time.Minute)
				lost := time.Now()
				w.feed.Down(errOut)
				w.feed.Mute(true)
				w.feed.Up()
				pass(time.Minute)
				end(w)
				if asOf := w.group.Snapshots()[0].AsOf; !asOf.Equal(lost) {
					t.Errorf("what it holds is from %s after the last stream on which something was heard", asOf.Sub(lost))
				}
			})
		})
	}
}

// TestSameElsewhere: K12, K16: restored content is as recent as that of another node which has just
// the same, whether or not clients have asked for it, unless that node is behind the tier head.
func TestSameElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		theirs    []string
		age       time.Duration
		change    func(*Snapshot)
		confirmed bool
	}{
		"the same":        {[]string{"a", "b"}, time.Second, nil, true},
		"longer ago":      {[]string{"a", "b"}, 2 * time.Hour, nil, false},
		"less of it":      {[]string{"a"}, time.Second, nil, false},
		"behind the head": {[]string{"a", "b"}, time.Second, func(k *Snapshot) { k.Outdated = true }, false},
		"a record":        {[]string{"a", "b"}, time.Second, func(k *Snapshot) { k.Recorded = true }, false},
	} {
		for when, early := range map[string]bool{"with clients": true, "without": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				inTime(t, Config{Linger: time.Hour}, func(t *testing.T, w *world) {
					w.client(clusters, true) // keeps the key in use
					w.feed.TakeDemand(true, true)
					w.feed.Down(errOut)
					sets := func(names ...string) (all []*resource.Resource) {
						for _, n := range names {
							all = append(all, endpointSet(t, n, 1))
						}
						return all
					}
					want := time.Now().Add(-time.Hour)
					w.group.RestoreFrom(holds(endpoints, false, want, sets("a", "b")...))
					if early {
						w.client(endpoints, false, "a", "b")
					}
					k := holds(endpoints, false, time.Now().Add(-tc.age), sets(tc.theirs...)...)
					if tc.change != nil {
						tc.change(&k)
					}
					if tc.confirmed {
						want = k.AsOf
					}
					if w.group.Renew([]Snapshot{k}) {
						t.Error("it was taken over")
					}
					if !early {
						w.client(endpoints, false, "a", "b")
					}
					if got := w.group.Table(endpoints).AsOf(); !got.Equal(want) {
						t.Errorf("as of %s after what was expected", got.Sub(want))
					}
				})
			})
		}
	}
}

// TestStreamConfirmsWhatItAnswered: K12, K14: a stream that ends before it has answered for a type
// confirms none of its content, although something else was received on it: the control plane may
// have had other content to send. Its silence about the type for a while does.
func TestStreamConfirmsWhatItAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		lasts     []time.Duration // streams, one after the other, that answer for another type
		confirmed bool
	}{
		"it ends soon":            {[]time.Duration{time.Second}, false},
		"one after the other":     {[]time.Duration{time.Second, 2 * time.Second}, false},
		"it lasts":                {[]time.Duration{time.Minute}, true},
		"it lasts before another": {[]time.Duration{time.Minute, time.Second}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
				w.client(clusters, true)
				w.client(endpoints, false, "a")
				w.feed.TakeDemand(true, false)
				w.feed.Up()
				w.apply(clusters, res("a", "1"))
				w.apply(endpoints, res("a", "1"))
				pass(time.Minute)
				lost := time.Now()
				w.feed.Down(errOut)
				want := lost
				for i, lasts := range tc.lasts {
					pass(time.Second)
					w.feed.TakeDemand(true, false)
					w.feed.Up()
					w.apply(endpoints, res("a", "2"))
					pass(lasts)
					w.feed.Down(errOut)
					if tc.confirmed && i == 0 {
						want = time.Now()
					}
				}
				for _, k := range w.group.Snapshots() {
					if k.Type == clusters && !k.AsOf.Equal(want) {
						t.Errorf("clusters are as of %s after the loss, expected %s", k.AsOf.Sub(lost), want.Sub(lost))
					}
					if k.Type == endpoints && !k.AsOf.Equal(time.Now()) {
						t.Errorf("endpoints are as of %s before the last loss", time.Since(k.AsOf))
					}
				}
			})
		})
	}
}

// TestBetweenTwoStates: K12, E5: while removals are held back from a node that follows the owner of
// a key, that node is between two states of the control plane. Another node must not take that for
// newer than the owner's content: removed resources would return.
func TestBetweenTwoStates(t *testing.T) {
	inTime(t, Config{Linger: time.Minute}, func(t *testing.T, w *world) {
		w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.feed.Borrow(true)
		w.feed.Up()
		follow := func(u Update) {
			u.Type, u.Mirror = clusters, &Mirror{}
			w.feed.Apply(u)
		}
		began := time.Now()
		follow(Update{Resources: []*resource.Resource{res("a", "1"), res("b", "1")}})
		pass(time.Second)
		if asOf := w.group.Snapshots()[0].AsOf; !asOf.Equal(time.Now()) {
			t.Errorf("what the owner has is from %s after the start", asOf.Sub(began))
		}
		follow(Update{Resources: []*resource.Resource{res("a", "2")}, Kind: Partial})
		if asOf := w.group.Snapshots()[0].AsOf; asOf.After(began) {
			t.Errorf("what is between two states is from %s after the start", asOf.Sub(began))
		}
		pass(time.Second)
		follow(Update{Removed: []string{"b"}})
		if asOf := w.group.Snapshots()[0].AsOf; !asOf.Equal(time.Now()) {
			t.Errorf("what the owner has now is from %s after the start", asOf.Sub(began))
		}
	})
}

// TestAbsentElsewhere: K12, K14: a name that another node knows not to exist is not served from an
// older record, not even because of parents that the removal guard holds back next (K16). The node
// passes on which names it knows not to exist.
func TestAbsentElsewhere(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, MaxRemovalPercent: 50, RemovalHold: time.Minute}, func(t *testing.T, w *world) {
		began := time.Now()
		pass(time.Hour)
		cluster := func(name string) *resource.Resource {
			return resource.New(resource.Resource{Name: name, Body: []byte("1"), Endpoints: name})
		}
		w.feed.Down(errOut)
		w.group.RestoreFrom(holds(clusters, true, began, cluster("a"), cluster("b")))
		w.group.RestoreFrom(holds(endpoints, false, began, res("a", "1"), res("b", "1")))
		parents, c := w.client(clusters, true), w.client(endpoints, false, "a", "b")
		expectSees(t, c, "a", "b")
		since := holds(endpoints, false, time.Now(), res("a", "2"))
		since.Absent = []string{"b"}
		w.group.Renew([]Snapshot{since})
		expectSees(t, c, "-b", "a")
		for _, k := range w.group.Snapshots() {
			if k.Type == endpoints && !slices.Equal(k.Absent, []string{"b"}) {
				t.Errorf("it passes on that %q do not exist", k.Absent)
			}
		}
		w.feed.Up()
		w.feed.TakeDemand(true, true)
		w.feed.Apply(Update{Type: clusters, Removed: []string{"a", "b"}})
		w.feed.Apply(Update{Type: endpoints, Removed: []string{"a", "b"}})
		expectSees(t, parents, "a", "b")
		expectSees(t, c, "-b", "a")
	})
}

// TestRestoredAtTheHead: K12: restored content counts as confirmed when the tier head that
// describes it was written, however old the record is: the control plane may have reverted to it
// since. So it does not yield to content that another node restored from a record in between. The
// clock of the owner may be ahead.
func TestRestoredAtTheHead(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"same clock": 0, "the owner's clock is ahead": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, HeadWait: time.Second}, func(t *testing.T, w *world) {
				began := time.Now()
				w.feed.Down(errOut)
				c := w.client(clusters, true)
				w.group.RestoreFrom(holds(clusters, true, began, res("a", "1")))
				expectSees(t, c, "a")
				pass(4 * time.Minute)
				w.group.ObserveHead(clusters, TierHead{Digest: c.table.Digest().Digest, At: time.Now().Add(ahead - time.Minute)})
				written := time.Now()
				if ahead == 0 {
					written = written.Add(-time.Minute)
				}
				pass(time.Minute)
				if asOf := w.group.Snapshots()[0].AsOf; !asOf.Equal(written) {
					t.Errorf("it is passed on as of %s, expected %s", asOf.Sub(began), written.Sub(began))
				}
				w.group.Renew([]Snapshot{holds(clusters, true, written.Add(-time.Second), res("b", "1"))})
				expectSees(t, c, "a")
				w.group.Renew([]Snapshot{holds(clusters, true, written.Add(time.Second), res("c", "1"))})
				expectSees(t, c, "c")
			})
		})
	}
}

// TestRestoredAfterTheHead: K12: restored content does not yield to what the tier head describes if that
// was written before the content was last confirmed: while Redis takes no writes, the head there stays.
func TestRestoredAfterTheHead(t *testing.T) {
	for name, tc := range map[string]struct {
		written time.Duration // after the content was confirmed
		taken   bool
	}{
		"the head is older":        {-time.Minute, false},
		"the content moved first":  {-link.Noticed, true},
		"the head is newer":        {time.Minute, true},
		"nobody knows when it was": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, HeadWait: time.Second}, func(t *testing.T, w *world) {
				confirmed := time.Now()
				pass(time.Hour)
				w.feed.Down(errOut)
				c := w.client(clusters, true)
				w.group.RestoreFrom(holds(clusters, true, confirmed, res("new", "1")))
				expectSees(t, c, "new")
				head := TierHead{Digest: resource.Digest{}.Add(res("old", "1").Member())}
				if tc.written != 0 {
					head.At = confirmed.Add(tc.written)
				}
				w.group.ObserveHead(clusters, head)
				if k := w.group.Snapshots()[0]; k.Outdated != tc.taken {
					t.Errorf("it is passed on as behind: %t", k.Outdated)
				}
				w.group.Renew([]Snapshot{holds(clusters, true, confirmed.Add(-2*time.Minute), res("old", "1"))})
				expectSees(t, c, map[bool]string{true: "old", false: "new"}[tc.taken])
			})
		})
	}
}

// TestAsOfOfAnOwnerThatIsCutOff: K12: content from the owner of a key, which cannot reach the
// control plane, is as old as the owner reports. It does not yield to an older record of another
// node, whatever the tier head is, and yields to newer content.
func TestAsOfOfAnOwnerThatIsCutOff(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, HeadWait: time.Second}, func(t *testing.T, w *world) {
		pass(time.Hour)
		w.feed.Borrow(true)
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		confirmed := time.Now().Add(-time.Minute)
		w.feed.Down(errOut)
		w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("a", "2")}, Mirror: &Mirror{AsOf: confirmed}})
		expectSees(t, c, "a")
		w.group.ObserveHead(clusters, TierHead{Digest: resource.Digest{1}, Version: "other"})
		if asOf := w.group.Snapshots()[0].AsOf; !asOf.Equal(confirmed) {
			t.Errorf("it is passed on as of %s, expected %s", asOf, confirmed)
		}
		w.group.Renew([]Snapshot{holds(clusters, true, confirmed.Add(-time.Second), res("old", "1"))})
		expectSees(t, c, "a")
		w.group.Renew([]Snapshot{holds(clusters, true, time.Now(), res("new", "1"))})
		expectSees(t, c, "new")
	})
}
