package fanout

import (
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/relay/xdstest"
)

// TestRoutesAfterClustersAskedFor: E2, B18: a delta client that asks for a cluster while
// another response of clusters is on its way has to wait for it; so does a route that
// leads there, since the cluster was there first.
func TestRoutesAfterClustersAskedFor(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s, other := w.open(true), w.open(true)
		s.Subscribe(cds, "x")
		s.Subscribe(rds, "r")
		other.Subscribe(cds, "y")
		w.asked(cds, "x", "y")
		w.asked(rds, "r")
		w.change(cds, nil, cluster("x", 1), cluster("y", 1))
		w.change(rds, nil, route("r", "x"))
		s.Ack(has(t, s.RecvType(t, cds), "x"))
		s.Ack(has(t, s.RecvType(t, rds), "r"))
		w.change(cds, nil, cluster("x", 2))
		unanswered := has(t, s.RecvType(t, cds), "x")
		s.Subscribe(cds, "y")
		s.Quiet(t, short)
		w.change(rds, nil, route("r", "y"))
		s.Quiet(t, short)
		s.Ack(unanswered)
		if f := has(t, s.Recv(t), "y"); f.TypeURL != cds {
			t.Fatalf("expected the cluster: %v", f)
		}
		if f := has(t, s.Recv(t), "r"); f.TypeURL != rds {
			t.Fatalf("expected the route: %v", f)
		}
	})
}

// TestRoutesAfterEndpointsRefreshed: E2, E3: a cluster that has changed waits for its
// endpoints, however old these are; so does what comes to lead there.
func TestRoutesAfterEndpointsRefreshed(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(cds)
		s.Subscribe(eds, "x", "y")
		s.Subscribe(rds, "r")
		w.asked(cds, "*")
		w.asked(eds, "x", "y")
		w.asked(rds, "r")
		w.serve("", cds, cluster("x", 1))
		w.change(eds, nil, endpoints("x", 1), endpoints("y", 1))
		w.change(rds, nil, route("r", "x"))
		s.Ack(has(t, s.RecvType(t, cds), "x"))
		s.Ack(has(t, s.RecvType(t, eds), "x", "y"))
		s.Ack(has(t, s.RecvType(t, rds), "r"))
		w.change(eds, nil, endpoints("x", 2))
		unanswered := has(t, s.RecvType(t, eds), "x")
		w.change(cds, nil, cluster("y", 1))
		s.Ack(has(t, s.RecvType(t, cds), "y"))
		w.change(rds, nil, route("r", "y"))
		s.Quiet(t, short)
		s.Ack(unanswered)
		if f := has(t, s.Recv(t), "y"); f.TypeURL != eds {
			t.Fatalf("expected the endpoints: %v", f)
		}
		if f := has(t, s.Recv(t), "r"); f.TypeURL != rds {
			t.Fatalf("expected the route: %v", f)
		}
	})
}

// TestRemovalsAfterARouteDroppedWithoutANonce: E2, B10: a SotW client that has read no
// response yet may drop a route and ask for it again, and takes what it reads then for
// an answer. So what the route leads to in any response that it may not have read stays
// until it has answered the newest, or for the time of B12.
func TestRemovalsAfterARouteDroppedWithoutANonce(t *testing.T) {
	for _, c := range []struct {
		url         string
		wants, more []string
	}{
		{rds, []string{"r"}, []string{"r"}},
		{rds, []string{"r"}, []string{"s"}}, // it gets that at once, and may still ask for "r" again
		{lds, []string{"*"}, []string{"*"}},
		{lds, []string{"*"}, []string{"s"}},
	} {
		drop := func(t *testing.T) (s *xdstest.Stream) {
			w := newWorld(t, func(c *Config) { c.AckTimeout = 10 * short })
			s = w.open(false)
			ask := func(names ...string) {
				s.Send(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("test-client", "test-cluster"), TypeUrl: c.url, ResourceNames: names})
			}
			s.Subscribe(cds)
			ask(c.wants...)
			w.asked(cds, "*")
			w.asked(c.url, c.wants...)
			w.serve("", cds, cluster("x", 1), cluster("y", 1))
			w.serve("", c.url, xdstest.Synthetic(c.url, "r", 1), xdstest.Synthetic(c.url, "s", 1))
			s.Ack(has(t, s.RecvType(t, cds), "x", "y"))
			s.RecvType(t, c.url)
			ask()
			w.change(c.url, nil, xdstest.Synthetic(c.url, "r", 2), xdstest.Synthetic(c.url, "s", 2))
			w.change(cds, []string{"y"})
			s.Quiet(t, short)
			ask(c.more...)
			synctest.Wait()
			w.change(c.url, nil, xdstest.Synthetic(c.url, "s", 3))
			return s
		}
		virtual(t, func(t *testing.T) {
			s := drop(t)
			newest := s.RecvType(t, c.url)
			s.Quiet(t, short)
			s.Ack(newest)
			s.Ack(has(t, s.RecvType(t, cds), "x"))
		})
		virtual(t, func(t *testing.T) { // B12
			s := drop(t)
			s.RecvType(t, c.url)
			s.Quiet(t, short)
			time.Sleep(10 * short) //nolint:forbidigo // virtual time
			has(t, s.RecvType(t, cds), "x")
		})
	}
}

// TestRejectionAfterTheWait: B12, B16: a client that did not answer in time was sent
// something newer, and then rejects what was before. That it takes the newer says nothing
// of it: it comes again with the next news, and not before (B14).
func TestRejectionAfterTheWait(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, func(c *Config) { c.AckTimeout = 10 * short })
		s := w.open(delta)
		s.Subscribe(eds, "a", "b", "c")
		w.asked(eds, "a", "b", "c")
		w.change(eds, nil, endpoints("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		w.change(eds, nil, endpoints("b", 1))
		late := has(t, s.Recv(t), "b")
		w.change(eds, nil, endpoints("c", 1))
		s.Quiet(t, short)
		newer := has(t, s.Recv(t), "c") // after the wait
		s.Nack(late, "no")
		s.Quiet(t, short)
		s.Ack(newer)
		w.settled(eds, Nacked)
		s.Quiet(t, 20*short)
		w.change(eds, nil, endpoints("a", 2))
		s.Ack(has(t, s.Recv(t), "a", "b", "c"))
		w.settled(eds, Synced)
		s.Nack(late, "no") // what was answered for since is not rejected any more
		w.change(eds, nil, endpoints("a", 3))
		s.Ack(has(t, s.Recv(t), "a"))
	})
}

// TestForgottenTypeIsResent: B8, B10: a SotW client drops a type by a request that is stale, since
// a response is in flight, forgets what it held, and subscribes again without a nonce. Even if it
// states the same names as before, it waits for all of them.
func TestForgottenTypeIsResent(t *testing.T) {
	for _, c := range []struct {
		url   string
		wants []string
	}{
		{rds, []string{"r", "s"}},
		{lds, []string{"r", "s"}},
		{lds, []string{"*"}},
	} {
		virtual(t, func(t *testing.T) {
			w := newWorld(t)
			s := w.open(false)
			ask := func(nonce string, names ...string) {
				s.Send(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("test-client", "test-cluster"), TypeUrl: c.url, ResourceNames: names, ResponseNonce: nonce})
			}
			ask("", c.wants...)
			w.asked(c.url, c.wants...)
			w.serve("", c.url, xdstest.Synthetic(c.url, "r", 1), xdstest.Synthetic(c.url, "s", 1))
			taken := has(t, s.RecvType(t, c.url), "r", "s")
			ask(taken.Nonce, c.wants...)
			s.Quiet(t, short)
			w.change(c.url, nil, xdstest.Synthetic(c.url, "s", 2))
			s.RecvType(t, c.url) // and not answered: the client wants nothing of it
			ask(taken.Nonce)
			s.Quiet(t, short)
			ask("", c.wants...)
			last := has(t, s.RecvType(t, c.url), "r", "s")
			ask("", c.wants...) // before it has read that: it says nothing new
			s.Quiet(t, short)
			ask(last.Nonce, c.wants...)
			s.Quiet(t, short)
		})
	}
}

// TestDropThatCrossesAResponse: B8, B18: a SotW client drops names by a request that
// crosses a response, so that it counts for nothing, and wants them again by the time that
// it answers the response. The answer names what it always named, and yet the client waits
// for what it has dropped.
func TestDropThatCrossesAResponse(t *testing.T) {
	for name, c := range map[string]struct {
		url   string
		wants []string
		stale [][]string // what the requests that cross the response name
		last  []string   // what the answer to it names
		again []string   // what comes after that
	}{
		"one":                          {eds, []string{"a", "b"}, [][]string{{"a"}, {"a", "b"}}, []string{"a", "b"}, []string{"b"}},
		"before the answer":            {eds, []string{"a", "b"}, [][]string{{"a"}}, []string{"a", "b"}, []string{"b"}},
		"one after the other":          {eds, []string{"a", "b"}, [][]string{{"a"}, {"b"}}, []string{"a", "b"}, []string{"a", "b"}},
		"all":                          {eds, []string{"a", "b"}, [][]string{{}}, []string{"a", "b"}, []string{"a", "b"}},
		"with another":                 {eds, []string{"a", "b"}, [][]string{{"a"}, {"a", "b"}}, []string{"a", "b", "c"}, []string{"b"}},
		"for good":                     {eds, []string{"a", "b"}, [][]string{{"a"}, {"a", "b"}}, []string{"a"}, nil},
		"nothing":                      {eds, []string{"a", "b"}, [][]string{{"b", "a"}}, []string{"a", "b"}, nil},
		"of a full state":              {cds, []string{"a", "b"}, [][]string{{"a"}, {"a", "b"}}, []string{"a", "b"}, []string{"a", "b"}},
		"the wildcard":                 {cds, []string{"*"}, [][]string{{"a"}, {"*"}}, []string{"*"}, []string{"a", "b", "c"}},
		"the wildcard, for a name":     {cds, []string{"*"}, [][]string{{}}, []string{"b"}, []string{"b"}},
		"the wildcard of another type": {eds, []string{"*"}, [][]string{{}}, []string{"*"}, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.open(false)
				ask := func(nonce string, names ...string) {
					s.Send(&discoveryv3.DiscoveryRequest{Node: w.conn.Node, TypeUrl: c.url, ResourceNames: names, ResponseNonce: nonce})
				}
				ask("", c.wants...)
				w.asked(c.url, c.wants...)
				w.serve("", c.url, xdstest.Synthetic(c.url, "a", 1), xdstest.Synthetic(c.url, "b", 1), xdstest.Synthetic(c.url, "c", 1))
				taken := s.RecvType(t, c.url)
				ask(taken.Nonce, c.wants...)
				synctest.Wait()
				w.change(c.url, nil, xdstest.Synthetic(c.url, "a", 2))
				newer := s.RecvType(t, c.url)
				for _, names := range c.stale {
					ask(taken.Nonce, names...)
				}
				s.Quiet(t, short)
				ask(newer.Nonce, c.last...)
				if len(c.again) > 0 {
					ask(has(t, s.RecvType(t, c.url), c.again...).Nonce, c.last...)
				}
				s.Quiet(t, short)
			})
		})
	}
}
