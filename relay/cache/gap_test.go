package cache

import (
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestRestoredUnseen: a resource that the removal guard restores before a client was sent its
// removal is not sent to that client again (B31). It is sent to all clients that may lack it, or
// know it otherwise: those that were sent the removal, even in a response that they rejected, those
// that connected in between, and those that may remember an error (K16, C16).
func TestRestoredUnseen(t *testing.T) {
	force := NewNames([]string{"a"})
	for name, try := range map[string]struct {
		since func(t *testing.T, w *world, c *client) // between the removal and the return
		query Query
		again bool
	}{
		"unseen":    {},
		"held back": {since: func(t *testing.T, _ *world, c *client) { expect(t, c.ask(t, Query{KeepRemoved: true})) }},
		"sent to another": {since: func(t *testing.T, w *world, _ *client) {
			other := w.client(endpoints, false, "a", "b")
			expect(t, other.ask(t, Query{}), "b", "-a")
			expect(t, other.ask(t, Query{Force: force}), "-a") // its position shows that
		}},
		"refreshed": {query: Query{Refresh: force}, again: true},
		"in parts":  {query: Query{Refresh: force, Limit: 1}, again: true},
		"sent":      {since: func(t *testing.T, _ *world, c *client) { expect(t, c.ask(t, Query{}), "-a") }, again: true},
		"sent first": {since: func(t *testing.T, w *world, c *client) {
			w.apply(endpoints, endpointSet(t, "b", 2))
			expect(t, c.ask(t, Query{Force: force, Scope: OnDemand}), "-a")
			expect(t, c.ask(t, Query{}), "b", "-a")
		}, again: true},
		"sent in the first part": {since: func(t *testing.T, w *world, c *client) {
			w.apply(endpoints, endpointSet(t, "b", 2))
			expect(t, c.ask(t, Query{Force: force, Limit: 1}), "-a")
		}, again: true},
		"rejected": {since: func(t *testing.T, _ *world, c *client) {
			acked := c.at
			expect(t, c.ask(t, Query{}), "-a")
			c.at = acked
		}, query: Query{Basis: RejectedSince}, again: true},
		"error": {since: func(_ *testing.T, w *world, _ *client) { w.refuse(endpoints, refusal("a", resource.CodeUnavailable)) }, again: true},
		"added again": {since: func(t *testing.T, w *world, _ *client) {
			w.apply(endpoints, endpointSet(t, "a", 1))
			w.remove(endpoints, "a")
		}, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				f := newFamily(t, w)
				c := w.client(endpoints, false, "a", "b")
				expect(t, c.ask(t, Query{}), "a", "b")
				w.remove(endpoints, "a")
				if try.since != nil {
					try.since(t, w, c)
				}
				late := w.client(endpoints, false, "a")
				expect(t, late.ask(t, Query{}), "-a")
				w.remove(clusters, "a", "b", "c")
				again := false
				for _, s := range said(c.ask(t, try.query)) {
					again = again || s == "a"
				}
				if again != try.again {
					t.Errorf("a client that had it is sent it again: %t, expected %t", again, try.again)
				}
				expect(t, late.ask(t, Query{}), "a")
				expect(t, w.client(endpoints, false, "a").ask(t, Query{}), "a")
				expect(t, f.clusters.ask(t, Query{}))
				w.check()
			})
		})
	}
}

// TestRestoredOnce: a restored resource that is removed and restored once more is sent to the
// clients that were sent the second removal, and later changes are sent to all.
func TestRestoredOnce(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		f := newFamily(t, w)
		behind := w.client(endpoints, false, "a")
		expect(t, behind.ask(t, Query{}), "a")
		w.remove(endpoints, "a")
		w.remove(clusters, "a", "b", "c")
		expect(t, f.endpoints.ask(t, Query{}))
		w.apply(clusters, withEndpoints("a"), withEndpoints("b"), withEndpoints("c"))
		w.apply(endpoints, endpointSet(t, "a", 1))
		expect(t, f.endpoints.ask(t, Query{}))
		pass(time.Minute)

		w.remove(endpoints, "a")
		expect(t, f.endpoints.ask(t, Query{}), "-a")
		w.remove(clusters, "a", "b", "c")
		expect(t, f.endpoints.ask(t, Query{}), "a")
		expect(t, behind.ask(t, Query{}), "a") // the changes that it has missed are not known any more

		w.apply(endpoints, endpointSet(t, "a", 3))
		expect(t, f.endpoints.ask(t, Query{}), "a")
		expect(t, behind.ask(t, Query{}), "a")
		w.check()
	})
}
