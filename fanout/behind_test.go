package fanout

import (
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// headWait is how long clients of these tests wait for a node that is behind.
const headWait = 5 * time.Second

// newNode is a node of a tier. It has a client of clusters, so that it has a table
// of them, and holds the first of states.
func newNode(t *testing.T, states ...proto.Message) *world {
	t.Helper()
	w := newWorldOf(t, cache.Config{Linger: time.Minute, HeadWait: headWait}).listen()
	s := w.open(true)
	s.Subscribe(cds)
	w.asked(cds, "*")
	w.change(cds, nil, states...)
	s.Ack(s.Recv(t))
	return w
}

// heldBy is what another node makes the head of clusters that it holds.
func heldBy(t *testing.T, states ...proto.Message) cache.TierHead {
	t.Helper()
	w := newNode(t, states...)
	e := w.cache.Groups()[0].Table(resource.TypeOf(cds)).Digest()
	return cache.TierHead{Digest: e.Digest, Version: e.Version}
}

func (w *world) agree(a cache.TierHead) { w.cache.Groups()[0].ObserveHead(resource.TypeOf(cds), a) }

// comes returns a client that comes from another node. That node sent it a cluster at version v, and
// called its content version.
func (w *world) comes(t *testing.T, delta bool, v int, version string) *xdstest.Stream {
	t.Helper()
	s := w.open(delta)
	if delta {
		s.Resume(cds, "", map[string]string{"a": resources(t, cluster("a", v))[0].Version})
	} else {
		s.Resume(cds, version, nil)
	}
	return s
}

// silent holds that the client hears nothing for so long.
func silent(t *testing.T, s *xdstest.Stream, d time.Duration) {
	t.Helper()
	s.Quiet(t, d-time.Millisecond)
}

// TestMovesToANodeBehind: a client at the tier's newest version moves to a node that
// is one behind: nothing older is sent to it while the node may yet catch up, and
// nothing at all once it has; others are served at once (K12).
func TestMovesToANodeBehind(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		head := heldBy(t, cluster("a", 2))
		w := newNode(t, cluster("a", 1))
		w.agree(head)
		s := w.comes(t, delta, 2, head.Version)
		silent(t, s, headWait)
		fresh := w.open(delta)
		fresh.Subscribe(cds)
		fresh.Ack(has(t, fresh.Recv(t), "a"))

		<-time.After(10 * time.Second)
		late := heldBy(t, cluster("a", 3))
		w.agree(late)
		s = w.comes(t, delta, 3, late.Version)
		silent(t, s, headWait/2)
		w.change(cds, nil, cluster("a", 3))
		if delta {
			s.Ack(has(t, s.Recv(t))) // B24
		}
		s.Quiet(t, 2*headWait)
		w.change(cds, nil, cluster("a", 4))
		s.Ack(has(t, s.Recv(t), "a"))
	})
}

// TestMovesToANodeThatRemoved: a client moves to a node where all that it holds is removed, or was
// not there yet, while the tier has what the client holds: the removals wait as older content does
// (K12, E2).
func TestMovesToANodeThatRemoved(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newNode(t)
		w.agree(heldBy(t, cluster("a", 2)))
		s := w.comes(t, true, 2, "")
		silent(t, s, headWait/2)
		w.change(cds, nil, cluster("a", 2))
		s.Ack(has(t, s.Recv(t))) // B24
		s.Quiet(t, 2*headWait)

		w = newNode(t)
		w.agree(heldBy(t, cluster("a", 2)))
		s = w.comes(t, true, 2, "")
		silent(t, s, headWait)
		s.Ack(hasRemoved(t, s.Recv(t), []string{"a"}))
	})
}

// TestMovesToANodeThatLearnsOfRemovals is TestMovesToANodeThatRemoved for a node that restored a
// complete set without the resource. Another node confirms that, whose content is as old.
func TestMovesToANodeThatLearnsOfRemovals(t *testing.T) {
	for _, catchesUp := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			head := heldBy(t, cluster("a", 2))
			w := newWorldOf(t, cache.Config{Linger: time.Minute, HeadWait: headWait}).listen()
			w.open(true).Subscribe(rds, "r") // without it there is no feed
			w.asked(rds, "r")
			w.origin().Down(errors.New("gone"))
			w.cache.Groups()[0].RestoreFrom(cache.Snapshot{Type: resource.TypeOf(cds), Streams: []cache.SnapshotStream{{}}, AsOf: time.Now(), Wildcard: true})
			w.agree(head)
			s := w.comes(t, true, 2, "")
			s.Ack(has(t, s.Recv(t))) // B24
			w.origin().Up()
			w.asked(cds, "*")
			w.change(cds, nil)
			if catchesUp {
				silent(t, s, headWait/2)
				w.change(cds, nil, cluster("a", 2))
				s.Quiet(t, 2*headWait)
				return
			}
			silent(t, s, headWait-short)
			s.Ack(hasRemoved(t, s.Recv(t), []string{"a"}))
		})
	}
}

// TestMovesWithEndpointsToANodeBehind: a client moves to a node that may lack one of its clusters, and
// whose control plane has removed the endpoints of it. It keeps them for as long as the cluster (K12): the
// node may learn that both are held back elsewhere.
func TestMovesWithEndpointsToANodeBehind(t *testing.T) {
	for _, catchesUp := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			w := newNode(t)
			w.agree(heldBy(t, cluster("a", 1)))
			s := w.open(true)
			s.Resume(cds, "", map[string]string{"a": version(t, cluster("a", 1))})
			s.Resume(eds, "", map[string]string{"a": version(t, endpoints("a", 1))}, "a")
			w.asked(eds, "a")
			w.change(eds, []string{"a"})
			silent(t, s, headWait/2)
			if catchesUp {
				w.change(eds, nil, endpoints("a", 1))
				w.change(cds, nil, cluster("a", 1))
				s.Ack(has(t, s.Recv(t))) // B24
				s.Quiet(t, 2*headWait)
				return
			}
			silent(t, s, headWait/2-short)
			for range 2 { // the limit for their order (E5) is over
				s.Ack(hasRemoved(t, s.Recv(t), []string{"a"}))
			}
		})
	}
}

// TestMovesWhileTheNodeCatchesUp: a client at the tier's newest version moves to a node that gets that
// content while it compares what the client holds: nothing is sent again (K12, B37).
func TestMovesWhileTheNodeCatchesUp(t *testing.T) {
	many := func(v int) (all []proto.Message) {
		for i := range 2000 {
			all = append(all, cluster(strconv.Itoa(i), v))
		}
		return all
	}
	virtual(t, func(t *testing.T) {
		w := newNode(t, many(0)...)
		for v := 1; v <= 20; v++ {
			head, held := heldBy(t, many(v)...), make(map[string]string)
			for _, r := range resources(t, many(v)...) {
				held[r.Name] = r.Version
			}
			w.agree(head)
			s := w.open(true)
			s.Resume(cds, "", held)
			caughtUp := make(chan struct{})
			go func() {
				defer close(caughtUp)
				for range 100 * v {
					runtime.Gosched()
				}
				w.change(cds, nil, many(v)...)
			}()
			if f := s.Recv(t); len(f.Resources) > 0 {
				t.Errorf("version %d: %d resources are sent again", v, len(f.Resources))
			}
			<-caughtUp
		}
	})
}

// TestMovesToANodeLeftBehind: after the bound the node's own state goes out, however
// many heads came meanwhile (K12).
func TestMovesToANodeLeftBehind(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newNode(t, cluster("a", 1))
		head := heldBy(t, cluster("a", 2))
		w.agree(head)
		<-time.After(time.Second)
		came := time.Now()
		s := w.comes(t, delta, 2, head.Version)
		for v := range 3 {
			s.Quiet(t, time.Second)
			w.agree(heldBy(t, cluster("a", 3+v)))
		}
		s.Ack(has(t, s.Recv(t), "a"))
		if waited := time.Since(came); waited != headWait-time.Second {
			t.Errorf("it waited %v", waited)
		}
		if other := w.comes(t, delta, 2, head.Version); delta { // which is none of the last any more
			other.Quiet(t, time.Second)
		}
	})
}

// TestMovesWithout: a client that names a version unknown to the tier, or comes to a node that
// knows no head or is at the head, is sent the node's content at once (K12).
func TestMovesWithout(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		head, own := heldBy(t, cluster("a", 2)), heldBy(t, cluster("a", 1))
		w := newNode(t, cluster("a", 1))
		at := time.Now() // from here on nothing is made that takes a moment
		served := func(s *xdstest.Stream) {
			t.Helper()
			s.Ack(has(t, s.Recv(t), "a"))
			if time.Since(at) > 0 {
				t.Error("it waited")
			}
		}
		served(w.comes(t, delta, 2, head.Version)) // there is no head
		w.agree(own)
		served(w.comes(t, delta, 2, head.Version)) // the node is at the head
		w.agree(head)
		if !delta { // on delta it could be any of those on the way to the head
			served(w.comes(t, false, 7, "unknown"))
		}
		w.change(cds, nil, cluster("a", 2))
		w.change(cds, nil, cluster("a", 3))
		served(w.comes(t, delta, 2, head.Version)) // the node is ahead
	})
}

// TestMovesByName: a SotW client that asks by name waits a moment only: its version
// does not prove anything. A delta client is sent nothing that it has (K12).
func TestMovesByName(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newNode(t, cluster("a", 1), cluster("b", 1))
		head := heldBy(t, cluster("a", 2), cluster("b", 1))
		w.agree(head)
		s := w.open(false)
		s.Resume(cds, "of a alone", nil, "a")
		silent(t, s, byNameWait)
		s.Ack(has(t, s.Recv(t), "a"))
		same := w.open(true)
		same.Resume(cds, "", map[string]string{"b": resources(t, cluster("b", 1))[0].Version}, "b")
		same.Quiet(t, time.Millisecond)
		behind := w.open(true)
		behind.Resume(cds, "", map[string]string{"a": resources(t, cluster("a", 2))[0].Version}, "a")
		behind.Quiet(t, time.Second)
		w.change(cds, nil, cluster("a", 2))
		behind.Quiet(t, 2*headWait)
	})
}

// TestMovesByNameFromANewerNode: a client that asks by name waits as long as others if the node had the
// content of the head before: then the head is newer (K12).
func TestMovesByNameFromANewerNode(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorldOf(t, cache.Config{Linger: time.Minute, HeadWait: headWait}).listen()
		first := w.open(true)
		first.Subscribe(eds, "e")
		w.asked(eds, "e")
		w.change(eds, nil, xdstest.Endpoints("e", "127.0.0.1:1"))
		first.Ack(first.Recv(t))
		g, typ, newer := w.cache.Groups()[0], resource.TypeOf(eds), xdstest.Endpoints("e", "127.0.0.1:2")
		g.ObserveHead(typ, cache.TierHead{Digest: g.Table(typ).Digest().Digest, Version: "present"})
		g.ObserveHead(typ, cache.TierHead{Digest: resource.Digest{1}, Version: "newer"})
		s := w.open(delta)
		if delta {
			s.Resume(eds, "", map[string]string{"e": resources(t, newer)[0].Version}, "e")
		} else {
			s.Resume(eds, "of the newer one", nil, "e")
		}
		silent(t, s, headWait)
		s.Ack(has(t, s.Recv(t), "e"))
	})
}

// TestMovesByNameInAnOutage: while the control plane cannot bring what is newer, a client that asks
// by name waits for as long as all others, until a new stream has answered (K12).
func TestMovesByNameInAnOutage(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorldOf(t, cache.Config{Linger: time.Minute, HeadWait: headWait}).listen()
		first := w.open(true) // the node has what its own clients ask for
		first.Subscribe(eds, "e")
		w.asked(eds, "e")
		w.change(eds, nil, xdstest.Endpoints("e", "127.0.0.1:1"))
		first.Ack(first.Recv(t))
		w.origin().Down(errors.New("gone"))
		w.cache.Groups()[0].ObserveHead(resource.TypeOf(eds), cache.TierHead{Digest: resource.Digest{1}, Version: "newer"})
		newer := xdstest.Endpoints("e", "127.0.0.1:2")
		returns := func() *xdstest.Stream {
			s := w.open(delta)
			if delta {
				s.Resume(eds, "", map[string]string{"e": resources(t, newer)[0].Version}, "e")
			} else {
				s.Resume(eds, "of the newer one", nil, "e")
			}
			return s
		}
		during := returns()
		silent(t, during, 2*byNameWait)
		w.origin().TakeDemand(true, true)
		w.origin().Up()
		after := returns()
		silent(t, after, headWait-3*byNameWait)
		during.Quiet(t, 0)
		w.change(eds, nil, newer)
		for _, s := range []*xdstest.Stream{during, after} {
			if !delta {
				s.Ack(has(t, s.Recv(t), "e"))
			}
			s.Quiet(t, 2*headWait)
		}
	})
}

// TestMovesByNameToAnOlderRecord: a node that has restored what an owner wrote down before
// the last change serves that to nobody who has something else, for as long as it may catch
// up: also not to a client that asks by name, since the tier head proves it (K12).
func TestMovesByNameToAnOlderRecord(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorldOf(t, cache.Config{Linger: time.Minute, Hold: -1, HeadWait: headWait}).listen()
		first := w.open(true) // the key is there from then on
		first.Subscribe(cds)
		w.asked(cds, "*")
		g := w.cache.Groups()[0]
		typ := resource.TypeOf(xdstest.EndpointType)
		older := cache.Snapshot{Type: typ, Streams: []cache.SnapshotStream{{}}, AsOf: time.Now(), Recorded: true}
		for _, r := range resources(t, xdstest.Endpoints("e", "127.0.0.1:1")) {
			older.Resources = append(older.Resources, cache.SnapshotResource{Resource: r, Streams: 1})
		}
		g.RestoreFrom(older)
		g.ObserveHead(typ, cache.TierHead{Digest: resource.Digest{1}, Version: "newer"})
		s := w.open(false)
		s.Resume(xdstest.EndpointType, "of the newer one", nil, "e")
		silent(t, s, headWait)
		s.Ack(has(t, s.Recv(t), "e"))
		fresh := w.open(false)
		fresh.Subscribe(xdstest.EndpointType, "e")
		fresh.Ack(has(t, fresh.Recv(t), "e"))
	})
}

// TestWaitsForItsTypeOnly: what waits for one type holds up no other, though it comes
// after it in the order E1, nor what the client asks for while its origin is away (K12).
func TestWaitsForItsTypeOnly(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newNode(t, cluster("a", 1))
		head := heldBy(t, cluster("a", 2))
		w.agree(head)
		at := time.Now()
		s := w.comes(t, delta, 2, head.Version)
		s.Subscribe(rds, "r")
		w.asked(rds, "r")
		w.change(rds, nil, route("r", "a"))
		s.Ack(has(t, s.RecvType(t, rds), "r"))
		if waited := time.Since(at); waited > time.Second {
			t.Errorf("routes waited %v", waited)
		}
		w.origin().Down(errors.New("gone"))
		s.Ack(has(t, s.RecvType(t, cds), "a"))
		if waited := time.Since(at); waited != headWait {
			t.Errorf("clusters waited %v", waited)
		}
	})
}
