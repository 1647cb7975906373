package fanout

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/fanout/journal"
	"xdsrelay/relay/xdstest"
)

// TestResend: an order sends a client everything again, with a new nonce, in each variant; the client
// accepts it, is in sync, and gets the next change alone.
func TestResend(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, recording)
		s := w.open(delta)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1), cluster("b", 1))
		first := has(t, s.Recv(t), "a", "b")
		s.Ack(first)
		s.Subscribe(eds, "a", "none")
		w.asked(eds, "a", "none")
		w.change(eds, nil, endpoints("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		w.settled(eds, Synced)
		target := Target{ID: w.only().ID(), Key: w.only().Key()}
		if all := w.srv.Resend(target, "", true); len(all) != 1 || !slices.Equal(all[0].Types, []string{cds, eds}) {
			t.Fatalf("without doing it: %+v", all)
		}
		s.Quiet(t, short)
		if all := w.srv.Resend(Target{ID: "other"}, "", false); len(all) != 0 {
			t.Fatalf("of nobody: %+v", all)
		}
		w.srv.Resend(target, "", false)
		again := has(t, s.Recv(t), "a", "b")
		if again.Nonce == first.Nonce || again.TypeURL != cds {
			t.Errorf("sent again as %v, before as %v", again, first)
		}
		s.Ack(again)
		s.Ack(has(t, s.Recv(t), "a"))
		s.Quiet(t, short)
		w.settled(cds, Synced)
		w.change(eds, nil, endpoints("a", 2))
		s.Ack(has(t, s.Recv(t), "a"))
		w.settled(eds, Synced)
		if n := len(w.events(journal.Resent)); n != 2 {
			t.Errorf("%d orders are recorded", n)
		}
	})
}

// TestResendOne: of one type alone, and after a NACK, which would hold it otherwise.
func TestResendOne(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, recording)
		s := w.open(delta)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		w.serve("v2", cds, cluster("a", 2))
		s.Nack(has(t, s.Recv(t), "a"), "no memory")
		s.Quiet(t, short)
		target := Target{ID: w.only().ID()}
		if all := w.srv.Resend(target, eds, false); len(all) != 1 || len(all[0].Types) != 0 {
			t.Errorf("of a type without a subscription: %+v", all)
		}
		s.Quiet(t, short)
		w.srv.Resend(target, cds, false)
		s.Ack(has(t, s.Recv(t), "a"))
		w.settled(cds, Synced)
	})
}

// TestKick: the connection of a client is asked to close, and its stream ends with the reason. Another
// client stays, and the client is served again.
func TestKick(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, recording)
		w.served(2)
		peer := ""
		for _, c := range w.srv.Clients() {
			if peer == "" || c.Peer() < peer {
				peer = c.Peer()
			}
		}
		target := Target{ID: w.srv.Clients()[0].ID(), Peer: peer}
		if all := w.srv.Kick(target, true); len(all) != 1 || all[0].Streams != 1 || w.srv.Count() != 2 {
			t.Fatalf("without doing it: %+v", all)
		}
		if all := w.srv.Kick(target, false); len(all) != 1 || len(all[0].Sharing) != 0 {
			t.Fatalf("%+v", all)
		}
		xdstest.Eventually(t, "the client to leave", func() bool { return w.srv.Count() == 1 })
		if all := w.srv.Kick(target, false); len(all) != 0 {
			t.Errorf("twice: %+v", all)
		}
		time.Sleep(2 * drainTime) //nolint:forbidigo // virtual time
		left := w.events(journal.Disconnected)
		if len(left) != 1 || left[0].End != journal.Kicked || left[0].Peer != peer {
			t.Errorf("%+v", left)
		}
	})
}

// recording turns the events of clients on.
func recording(c *Config) { c.EventBytes = 4096 }

// events returns the events of a kind of all clients with the usual node id.
func (w *world) events(k journal.Kind) (found []Event) {
	all, _ := w.srv.Events("test-client")
	for _, c := range all {
		for _, e := range c.Events {
			if e.Kind == k {
				found = append(found, e)
			}
		}
	}
	return found
}
