package fanout

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// only is the one client that there is.
func (w *world) only() Client {
	w.t.Helper()
	clients := w.srv.Clients()
	if len(clients) != 1 {
		w.t.Fatalf("%d clients", len(clients))
	}
	return clients[0]
}

// stands writes how a client stands: "a=SYNCED@v1 b=NOT_SENT".
func stands(c Client) string {
	var words []string
	for r := range c.Resources {
		word := fmt.Sprintf("%s=%s", r.Name, r.State)
		if r.Version != "" {
			word += "@" + r.Version
		}
		if r.Nack != nil {
			word += "(" + r.Nack.Message + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func (w *world) waitStands(t *testing.T, want string) {
	t.Helper()
	var got string
	defer func() {
		if t.Failed() {
			t.Logf("the last was %q, expected %q", got, want)
		}
	}()
	xdstest.Eventually(t, "the client to stand at "+want, func() bool {
		got = stands(w.only())
		return got == want
	})
}

// TestStatus: K20: a client's status shows for each resource whether it was sent, acknowledged, or
// rejected and why, or not sent.
func TestStatus(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(eds, "a", "b", "missing")
		w.asked(eds, "a", "b", "missing")
		serve := func(version string, ms ...proto.Message) { w.serve(version, eds, ms...) }
		at := func(version string, m proto.Message) string { // the content that is sent to the client
			if delta {
				return resources(t, m)[0].Version
			}
			return version
		}
		w.waitStands(t, "a=NOT_SENT b=NOT_SENT missing=NOT_SENT")
		a1, b1, a2 := xdstest.Synthetic(eds, "a", 1), xdstest.Synthetic(eds, "b", 1), xdstest.Synthetic(eds, "a", 2)
		serve("v1", a1, b1)
		f := has(t, s.Recv(t), "a", "b")
		version := func(m proto.Message) string { return at(f.Version, m) }
		w.waitStands(t, "a=STALE@"+version(a1)+" b=STALE@"+version(b1)+" missing=NOT_SENT")
		s.Ack(f)
		w.waitStands(t, "a=SYNCED@"+version(a1)+" b=SYNCED@"+version(b1)+" missing=NOT_SENT")
		serve("v2", a2)
		f = has(t, s.Recv(t), "a")
		w.waitStands(t, "a=STALE@"+version(a2)+" b=SYNCED@"+version(b1)+" missing=NOT_SENT")
		s.Nack(f, "no such luck")
		w.waitStands(t, "a=NACKED@"+version(a2)+"(no such luck) b=SYNCED@"+version(b1)+" missing=NOT_SENT")
		for r := range w.only().Resources {
			switch {
			case r.Type.URL != eds, r.Name != "missing" && (r.Resource == nil || time.Since(r.Changed) > time.Minute):
				t.Errorf("resource %+v", r)
			case r.Name == "missing" && (r.Resource != nil || !r.Changed.IsZero()):
				t.Errorf("resource %+v", r)
			case r.Nack != nil && (r.Nack.Code != 3 || time.Since(r.Nack.At) > time.Minute):
				t.Errorf("NACK %+v", r.Nack)
			}
		}
		serve("v3", xdstest.Synthetic(eds, "a", 3))
		s.Ack(has(t, s.Recv(t), "a"))
		xdstest.Eventually(t, "the client is well again", func() bool { return !strings.Contains(stands(w.only()), "NACKED") })
	})
}

// TestStatusOfMissing: K20: how many of the names that a client asks for have no resource
// is shown in every state, also with aliases and with the wildcard; it changes with what
// the origin sends.
func TestStatusOfMissing(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		expect := func(state State, missing int) {
			t.Helper()
			synctest.Wait()
			if i := w.info(eds); i.State != state || i.Missing != missing {
				t.Errorf("the client is %s with %d missing names, expected %s with %d", i.State, i.Missing, state, missing)
			}
		}
		s.Subscribe(eds, "a", "b", "missing")
		w.asked(eds, "a", "b", "missing")
		expect(NotSent, 3)
		w.change(eds, []string{"missing"}, xdstest.Synthetic(eds, "a", 1), xdstest.Synthetic(eds, "b", 1))
		s.Ack(s.Recv(t))
		expect(Synced, 1)
		w.change(eds, nil, xdstest.Synthetic(eds, "missing", 1))
		s.Ack(s.Recv(t))
		expect(Synced, 0)
		w.change(eds, []string{"a"})
		synctest.Wait()
		if i := w.info(eds); i.Missing != 1 {
			t.Errorf("%d missing names after a removal, expected 1", i.Missing)
		}
		s.Subscribe(cds)
		if delta {
			s.Subscribe(cds, "on-demand")
		}
		w.change(cds, nil, cluster("x", 1))
		synctest.Wait()
		want := 0
		if delta {
			want = 1
		}
		if i := w.info(cds); i.Missing != want {
			t.Errorf("%d missing names with the wildcard, expected %d", i.Missing, want)
		}
	})
}

// TestStatusOfEverything: K20: a client of the wildcard stands with all that
// there is; on SotW a response of the whole set rejects what was new in it.
func TestStatusOfEverything(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1), cluster("b", 1))
		s.Ack(s.Recv(t))
		w.serve("v2", cds, cluster("a", 1), cluster("b", 2))
		f := s.Recv(t)
		s.Nack(f, "no")
		xdstest.Eventually(t, "the rejection", func() bool {
			got := stands(w.only())
			return strings.Contains(got, "a=SYNCED") && strings.Contains(got, "b=NACKED") && strings.Contains(got, "(no)")
		})
		s.Subscribe(eds, "x") // a type after the other, in the order of sending
		w.asked(eds, "x")
		if got := stands(w.only()); !strings.HasSuffix(got, " x=NOT_SENT") {
			t.Fatalf("stands at %s", got)
		}
	})
}

// TestStatusOfNames: what was added to a subscription is not sent before it is,
// even if it is old.
func TestStatusOfNames(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s, other := w.open(delta), w.open(delta)
		other.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		w.serve("v1", eds, xdstest.Synthetic(eds, "a", 1), xdstest.Synthetic(eds, "b", 1))
		other.Ack(has(t, other.Recv(t), "a", "b"))
		other.Cancel()
		xdstest.Eventually(t, "the other to leave", func() bool { return len(w.srv.Clients()) == 0 })
		s.Subscribe(eds, "a")
		f := has(t, s.Recv(t), "a")
		s.Subscribe(eds, "a", "b") // while the answer is open
		xdstest.Eventually(t, "the names to be known", func() bool { return strings.Contains(stands(w.only()), "b=") })
		if got := stands(w.only()); delta && !strings.Contains(got, "b=NOT_SENT") {
			t.Fatalf("stands at %s", got)
		}
		s.Ack(f)
		s.Ack(s.RecvType(t, eds))
		xdstest.Eventually(t, "all is well", func() bool {
			got := stands(w.only())
			return strings.Contains(got, "a=SYNCED") && strings.Contains(got, "b=SYNCED")
		})
	})
}

// TestStatusSaysWho: K20: the status of a client has its key and the kept part of its Node. A
// client that has not identified itself is not shown.
func TestStatusSaysWho(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		w.conn.Node = xdstest.Node("me", "us")
		w.conn.Node.Extensions = []*corev3.Extension{{Name: "x"}}
		w.open(true) // says nothing
		s := w.open(true)
		s.Subscribe(cds)
		xdstest.Eventually(t, "the client", func() bool { return len(w.srv.Clients()) == 1 })
		c := w.only()
		want := proto.CloneOf(w.conn.Node)
		want.Extensions = nil
		if c.Key() != "us" || c.ID() != "me" || !proto.Equal(c.Node(), want) {
			t.Fatalf("client %q of %q: %v", c.ID(), c.Key(), c.Node())
		}
	})
}
