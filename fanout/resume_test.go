package fanout

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// B37: what a reconnecting delta client holds at the same version is not
// resent, even if it subscribes to it; the rest is, and what is gone is said, or
// was never there (B34). A wildcard is answered even if nothing differs (B24).
func TestResumeDelta(t *testing.T) {
	for _, names := range [][]string{nil, {"a", "b", "g", "n"}} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.open(true)
				s.Subscribe(cds, names...)
				if names == nil {
					w.asked(cds, "*")
				} else {
					w.asked(cds, names...)
				}
				w.serve("v1", cds, cluster("a", 1), cluster("b", 1), cluster("n", 1))
				w.absent(cds, "g")
				s.Ack(s.Recv(t))

				again := w.open(true)
				again.Resume(cds, "", map[string]string{
					"a": version(t, cluster("a", 1)), "b": version(t, cluster("b", 0)), "g": "x", "elsewhere": "y",
				}, names...)
				again.Ack(has(t, again.Recv(t), "b", "n"))
				again.Ack(hasRemoved(t, again.Recv(t), []string{"elsewhere", "g"})) // E5
				w.change(cds, nil, cluster("a", 2))
				again.Ack(has(t, again.Recv(t), "a"))
				again.Quiet(t, short)

				same := w.open(true)
				same.Resume(cds, "", map[string]string{
					"a": version(t, cluster("a", 2)), "b": version(t, cluster("b", 1)), "n": version(t, cluster("n", 1)),
				}, names...)
				if names == nil { // B24: a wildcard is answered all the same
					same.Ack(has(t, same.Recv(t)))
				} else { // B34: it claims nothing of "g"
					same.Ack(hasRemoved(t, same.Recv(t), []string{"g"}))
				}
				same.Quiet(t, short)
			})
		})
	}
}

// B37: a resource that a reconnected client has dropped before any response does not count as held
// any more: the client gets it if it subscribes to it again, by name or with the wildcard.
func TestResumeThenDrop(t *testing.T) {
	for name, c := range map[string]struct {
		first, drop, again []string
	}{
		"names, then the wildcard":           {[]string{"a", "b"}, []string{"a", "b"}, []string{"*"}},
		"names, then one of them":            {[]string{"a", "b"}, []string{"b"}, []string{"b"}},
		"the wildcard, and again":            {nil, []string{"*"}, []string{"*"}},
		"the wildcard, then names":           {nil, []string{"*"}, []string{"a", "b"}},
		"a name that the wildcard covers":    {[]string{"*", "b"}, []string{"b"}, nil},
		"names and wildcard, then wildcard":  {[]string{"*", "b"}, []string{"*", "b"}, []string{"*"}},
		"other names, then all the wildcard": {[]string{"c"}, []string{"c"}, []string{"*"}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.open(true)
				s.Resume(cds, "", map[string]string{"a": version(t, cluster("a", 1)), "b": version(t, cluster("b", 1))}, c.first...)
				s.Unsubscribe(cds, c.drop...)
				if c.again != nil {
					s.Subscribe(cds, c.again...)
				}
				kept := !slices.Contains(c.drop, "*") && slices.Contains(c.first, "*") || slices.Equal(c.again, []string{"b"}) ||
					slices.Equal(c.first, []string{"c"})
				synctest.Wait()
				w.origin().TakeDemand(true, true)
				w.change(cds, nil, cluster("a", 1), cluster("b", 1))
				switch f := s.Recv(t); {
				case slices.Equal(c.first, []string{"c"}):
					has(t, f) // it has dropped nothing of that
				case kept:
					has(t, f, "b")
				default:
					has(t, f, "a", "b")
				}
			})
		})
	}
}

// B37: the versions count on the first message of a type only, per type; later
// ones ask again (B35).
func TestVersionsCountOnTheFirstMessageOnly(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		held := map[string]string{"a": version(t, endpoints("a", 1)), "b": "gone"}
		s.Resume(eds, "", held, "a")
		s.Ack(has(t, s.Recv(t), "a")) // B35
		s.Resume(rds, "", map[string]string{"r": "old"}, "r")
		w.asked(rds, "r")
		w.change(rds, nil, route("r", "x"))
		has(t, s.Recv(t), "r")
	})
}

// B37, D4, K13, K14: a relay that starts cold says nothing to a client that
// comes back until it knows, and then only what differs; for a NACK it starts
// over (B16).
func TestResumeAtAColdRelay(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Resume(cds, "", map[string]string{"a": version(t, cluster("a", 1)), "b": "old", "g": "x"})
		s.Resume(eds, "", map[string]string{"a": version(t, endpoints("a", 1)), "z": "x"}, "a", "z")
		w.asked(cds, "*")
		w.asked(eds, "a", "z")
		w.change(eds, nil, endpoints("a", 1)) // answers for all that was asked …
		s.Quiet(t, short)                     // … but absence is not said by silence (D4)
		w.serve("v1", cds, cluster("a", 1), cluster("b", 1))
		s.Ack(has(t, s.RecvType(t, cds), "b"))
		w.absent(eds, "z")
		s.Ack(hasRemoved(t, s.Recv(t), []string{"z"})) // E5: this before the clusters
		s.Nack(hasRemoved(t, s.RecvType(t, cds), []string{"g"}), "no")
		s.Quiet(t, short)
		w.change(cds, nil, cluster("c", 1))
		s.Ack(hasRemoved(t, s.RecvType(t, cds), []string{"g"}, "c")) // B16
	})
}

// K14: while the origin is down, old and new clients are served the available content; a client
// that reconnects is sent what is certain, and the rest after the origin has returned.
func TestOriginDown(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1), cluster("b", 1))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		w.origin().Down(errors.New("gone"))

		fresh := w.open(delta)
		fresh.Subscribe(cds)
		fresh.Ack(has(t, fresh.Recv(t), "a", "b"))
		fresh.Subscribe(eds, "a") // never asked of anybody
		if delta {
			back := w.open(true)
			back.Resume(eds, "", map[string]string{"a": "held", "b": "held"}, "a")
			hasRemoved(t, back.Recv(t), []string{"b"}) // not covered; "a" may well exist
			back.Quiet(t, short)
		}
		fresh.Quiet(t, short)

		w.origin().Up()
		w.asked(eds, "a")
		w.serve("v1", cds, cluster("a", 1), cluster("b", 1)) // K14: the same: nothing
		s.Quiet(t, short)
		w.serve("v2", cds, cluster("a", 1))
		if delta {
			s.Ack(hasRemoved(t, s.Recv(t), []string{"b"}))
		} else {
			s.Ack(has(t, s.Recv(t), "a"))
		}
	})
}

// K15: a stream that requests unknown content of an origin that cannot be reached, and never had an
// answer, is ended in time to fall back. A stream that had an answer stays and is sent an error for
// each name, once. A stream whose origin returns stays, too.
func TestNoStateAndNoOrigin(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, func(c *Config) { c.OriginTimeout = 3 * short })
		known := w.open(delta)
		known.Subscribe(cds, "a")
		w.asked(cds, "a")
		w.change(cds, nil, cluster("a", 1))
		known.Ack(has(t, known.Recv(t), "a"))
		w.origin().Down(errors.New("gone"))

		known.Subscribe(eds, "a")
		saved, lost := w.open(delta), w.open(delta)
		lost.Subscribe(eds, "a")
		refusedWith(t, lost, codes.Unavailable, "is unreachable")
		failed := known.Recv(t)
		if has(t, failed); len(failed.Errors) != 1 || failed.TypeURL != eds {
			t.Fatalf("expected an error for what cannot be asked: %v", failed)
		}
		known.Ack(failed)
		saved.Subscribe(eds, "a")
		saved.Quiet(t, short)
		w.origin().Up()
		saved.Quiet(t, 4*short)
		known.Quiet(t, short)
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		has(t, saved.RecvType(t, eds), "a")
		has(t, known.RecvType(t, eds), "a")
	})
}

// B37, K13, K14: a client that reconnects while the origin is down is compared with the available
// content. A resource that it alone holds counts as gone only once the origin says so.
func TestResumeWhileTheOriginIsDown(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(lds, "known")
		w.asked(lds, "known")
		w.change(lds, nil, listener("known", 1))
		s.Ack(has(t, s.Recv(t), "known"))
		w.origin().Down(errors.New("gone"))

		back := w.open(true)
		back.Resume(lds, "", map[string]string{"known": "old", "gone": "x", "there": version(t, listener("there", 1))})
		back.Ack(has(t, back.Recv(t), "known"))
		back.Quiet(t, short)
		w.origin().Up()
		w.asked(lds, "*", "known")
		w.serve("", lds, listener("known", 1), listener("there", 1))
		back.Ack(hasRemoved(t, back.Recv(t), []string{"gone"}))
		back.Quiet(t, short)
	})
}

// coldAndDown is a relay that knows nothing, while the origin is down.
func coldAndDown(t *testing.T, change ...func(*Config)) *world {
	w := newWorld(t, change...)
	w.open(true).Subscribe(rds, "r") // without it there is no feed
	w.asked(rds, "r")
	w.origin().Down(errors.New("gone"))
	return w
}

// B37: a client that comes back to a relay that knows nothing, while the origin is
// down, is compared with what the origin has once it is back.
func TestResumeAtAColdRelayWhileTheOriginIsDown(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := coldAndDown(t)
		s := w.open(true)
		s.Resume(cds, "", map[string]string{"a": version(t, cluster("a", 1)), "b": "old", "g": "x"})
		s.Resume(eds, "", map[string]string{"a": version(t, endpoints("a", 1)), "z": "x"}, "a", "c", "z")
		s.Quiet(t, short)
		w.origin().Up()
		w.asked(cds, "*")
		w.asked(eds, "a", "c", "z")
		w.change(eds, nil, endpoints("a", 1)) // it has that
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("c", 1))
		s.Ack(has(t, s.RecvType(t, eds), "c"))
		w.change(eds, nil, endpoints("z", 1))
		s.Ack(has(t, s.RecvType(t, eds), "z"))
		w.serve("v1", cds, cluster("a", 1), cluster("b", 1), cluster("n", 1))
		s.Ack(has(t, s.RecvType(t, cds), "b", "n"))
		s.Ack(hasRemoved(t, s.RecvType(t, cds), []string{"g"}))
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("a", 2))
		s.Ack(has(t, s.RecvType(t, eds), "a"))
	})
}

// B37: what a client holds is compared with what the origin has also where that comes in several
// responses, and while the client still has to answer a response.
func TestResumeInSeveralAnswers(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := coldAndDown(t)
		s := w.open(true)
		s.Resume(eds, "", map[string]string{"a": version(t, endpoints("a", 1)), "b": "old", "g": "x"}, "a", "b", "c", "g")
		s.Quiet(t, resumeLimit+short)
		w.origin().Up()
		w.asked(eds, "a", "b", "c", "g")
		w.change(eds, nil, endpoints("c", 1))
		unanswered := has(t, s.RecvType(t, eds), "c")
		w.change(eds, []string{"g"}, endpoints("a", 1), endpoints("b", 1)) // it has a
		s.Quiet(t, short)
		s.Ack(unanswered)
		s.Ack(hasRemoved(t, s.RecvType(t, eds), []string{"g"}, "b"))
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("a", 2))
		s.Ack(has(t, s.RecvType(t, eds), "a"))
	})
}

// TestClaimsEndWithTheFirstResource: B37: a resource that a client was sent is no longer the one that it
// returned with. If the node first has another version of it, from another node while the control plane
// is unreachable, and then the one that the client had, the client is sent both.
func TestClaimsEndWithTheFirstResource(t *testing.T) {
	for name, tc := range map[string]struct {
		older, same []string // what the other node has in another version than the client, and in the same
		late        bool     // the client does not answer the response before
	}{
		"alone":        {older: []string{"a"}},
		"with another": {older: []string{"a"}, same: []string{"b"}},
		"several":      {older: []string{"a", "b"}, same: []string{"d"}},
		"no answer":    {older: []string{"a"}, same: []string{"b"}, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				w := coldAndDown(t, func(c *Config) { c.AckTimeout = 10 * short })
				elsewhere := func(v int, names ...string) {
					k := cache.Snapshot{Type: resource.TypeOf(eds), Streams: []cache.SnapshotStream{{}}, AsOf: time.Now()}
					for _, n := range names {
						k.Resources = append(k.Resources, cache.SnapshotResource{Resource: resources(t, endpoints(n, v))[0], Streams: 1})
					}
					for _, n := range tc.same {
						k.Resources = append(k.Resources, cache.SnapshotResource{Resource: resources(t, endpoints(n, 2))[0], Streams: 1})
					}
					w.cache.Groups()[0].RestoreFrom(k)
				}
				s := w.open(true)
				had := make(map[string]string)
				for _, n := range []string{"a", "b", "d"} {
					had[n] = version(t, endpoints(n, 2))
				}
				s.Resume(eds, "", had, "a", "b", "c", "d")
				s.Quiet(t, short)
				if tc.late {
					elsewhere(1, "c")
					has(t, s.RecvType(t, eds), "c")
				}
				elsewhere(1, tc.older...)
				if tc.late {
					time.Sleep(10 * short) //nolint:forbidigo // virtual time
				}
				s.Ack(has(t, s.RecvType(t, eds), tc.older...))
				s.Quiet(t, short)
				w.origin().Up()
				w.asked(eds, "a", "b", "c", "d")
				var now []proto.Message
				for _, n := range tc.older {
					now = append(now, endpoints(n, 2))
				}
				w.change(eds, nil, now...)
				s.Ack(has(t, s.RecvType(t, eds), tc.older...))
				s.Quiet(t, short)
			})
		})
	}
}

// B39: a version quoted on a new stream suppresses nothing, except where it
// proves that a pure wildcard has all it would be sent; the origin's own version,
// which passes through (D7), does not.
func TestResumeSotW(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(eds, "a")
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.change(eds, nil, endpoints("a", 1))
		f := s.RecvType(t, eds)
		w.serve("origin's own", cds, cluster("a", 1))
		g := s.RecvType(t, cds)
		if g.Version != "origin's own" { // D7
			t.Fatalf("the origin's version became %q", g.Version)
		}

		again := w.open(false)
		again.Resume(eds, f.Version, nil, "a")
		has(t, again.Recv(t), "a")
		again.Resume(cds, g.Version, nil) // says nothing about the content
		has(t, again.RecvType(t, cds), "a")

		w.change(cds, nil, cluster("a", 2)) // from now on the version is made of the content
		g = has(t, func() *xdstest.Frame { s.Ack(g); return s.RecvType(t, cds) }(), "a")
		same := w.open(false)
		same.Resume(cds, g.Version, nil)
		same.Quiet(t, short)
		w.change(cds, nil, cluster("a", 3))
		has(t, same.Recv(t), "a")
		named := w.open(false)
		named.Resume(cds, g.Version, nil, "a")
		has(t, named.Recv(t), "a")
	})
}

// B39: nor does it prove anything once the client has left the wildcard.
func TestResumeThenLeave(t *testing.T) {
	virtual(t, func(t *testing.T) {
		before := newWorld(t)
		s := before.open(false)
		s.Subscribe(cds)
		before.asked(cds, "*")
		before.change(cds, nil, cluster("a", 1))
		version := has(t, s.Recv(t), "a").Version

		w := newWorld(t) // knows nothing yet
		back := w.open(false)
		back.Resume(cds, version, nil)
		back.Subscribe(cds, "a")
		back.Unsubscribe(cds, "*")
		back.Subscribe(cds, "*")
		back.Unsubscribe(cds, "a")
		synctest.Wait()
		w.origin().TakeDemand(true, true)
		w.change(cds, nil, cluster("a", 1))
		has(t, back.Recv(t), "a")
	})
}

// D7, K11: equal content has equal versions on all nodes that compute them.
func TestVersionsAgreeBetweenNodes(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		var versions []string
		for range 2 {
			w := newWorld(t)
			s := w.open(delta)
			s.Subscribe(eds, "a", "b")
			w.asked(eds, "a", "b")
			w.change(eds, nil, endpoints("b", 1))
			f := s.Recv(t)
			s.Ack(f)
			if f.Version == "" && !delta {
				t.Fatal("no version")
			}
			w.change(eds, nil, endpoints("a", 1))
			g := s.Recv(t)
			if f.Version == g.Version {
				t.Fatalf("two states have version %q", f.Version)
			}
			versions = append(versions, g.Version, g.Resources[0].Version)
		}
		if versions[0] != versions[2] || versions[1] != versions[3] {
			t.Fatalf("two nodes gave %q", versions)
		}
	})
}

// B40: a client that comes back with 50,000 names and versions is served.
func TestManyNames(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const n = 50_000
		w := newWorld(t)
		names, held := make([]string, n), make(map[string]string, n)
		messages := make([]proto.Message, n)
		for i := range names {
			names[i] = fmt.Sprintf("cluster-with-a-name-of-usual-length-%06d", i)
			messages[i] = endpoints(names[i], 1)
		}
		all := resources(t, messages...)
		for _, r := range all {
			held[r.Name] = r.Version
		}
		s := w.open(true)
		send := func(d *deltaRequest) { // by hand: the scripted client would remember all names
			d.TypeUrl = eds
			s.Send(d)
		}
		send(&deltaRequest{Node: w.conn.Node, ResourceNamesSubscribe: names, InitialResourceVersions: held})
		f := w.origin()
		xdstest.Eventually(t, "all to be asked", func() bool {
			d := f.TakeDemand(true, true)
			return len(d) == 1 && len(d[0].Names) == n
		})
		f.Apply(cache.Update{Type: resource.TypeOf(eds), Resources: all})
		s.Quiet(t, short)
		f.Apply(cache.Update{Type: resource.TypeOf(eds), Removed: names[7:8]})
		s.Ack(hasRemoved(t, s.Recv(t), names[7:8]))
		send(&deltaRequest{ResourceNamesUnsubscribe: names})
		send(&deltaRequest{ResourceNamesSubscribe: names}) // sent again
		restOf(t, s, eds, 4<<20, names...)
		send(&deltaRequest{ResourceNamesSubscribe: names, ResourceNamesUnsubscribe: names[1:]}) // while they wait for their ACK
		s.Subscribe(rds, "r")
		w.asked(rds, "r")
	})
}
