package relay_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// story is the events of a client without times; all nodes must give the same.
func (w *tierWorld) story(client string) (all ops.ClientEvents, text string) {
	w.t.Helper()
	var first string
	for node := range w.nodes {
		w.order(node, http.MethodGet, "/api/v1/client/events?client="+url.QueryEscape(client), &all)
		var lines []string
		for _, e := range all.Events {
			lines = append(lines, strings.Join(strings.Fields(e.Node+" "+e.Type+" "+e.What()), " "))
		}
		if text = strings.Join(lines, "\n"); first == "" {
			first = text
		}
		if text != first {
			w.t.Errorf("nodes differ:\n%s\n\n%s", first, text)
		}
	}
	return all, text
}

// TestKickAndResend: orders reach a client of another node, which resumes without a breach of the
// protocol, and any node answers with its events, also after it has left.
func TestKickAndResend(t *testing.T) {
	for _, v := range []xdstest.Variant{xdstest.Delta, xdstest.SotW} {
		t.Run(v.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { kickAndResend(t, v) }) })
	}
}

func kickAndResend(t *testing.T, v xdstest.Variant) {
	w := newOperatedWorld(t, 2, "red")
	at, asked := "a", "b"
	c := w.client(at, "c-red", "red", v)
	c.Subscribe(xdstest.ClusterType)
	c.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
	other := w.client(at, "other", "red", v)
	other.Subscribe(xdstest.ClusterType)
	other.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
	synctest.Wait()
	order := func(path string, want int) (done ops.Ordered) {
		t.Helper()
		if code, text := w.order(asked, http.MethodPost, path, &done); code != want {
			t.Fatalf("%s: %d %s", path, code, text)
		}
		return done
	}

	sent := w.resources.Load()
	if done := order("/resend?client=c-red&dry_run=true", http.StatusOK); len(done.Clients) != 1 || done.Clients[0].Node != at || !slices.Equal(done.Clients[0].Sent, []string{"CDS"}) {
		t.Errorf("%+v", done)
	}
	time.Sleep(time.Second) //nolint:forbidigo // virtual time
	if n := w.resources.Load(); n != sent {
		t.Errorf("%d resources were sent by a dry run", n-sent)
	}
	order("/resend?client=c-red", http.StatusAccepted)
	time.Sleep(time.Second) //nolint:forbidigo // virtual time
	if n := w.resources.Load(); n != sent+2 {
		t.Errorf("%d resources were sent again, expected 2", n-sent)
	}

	if done := order("/kick?client=c-red&dry_run=1", http.StatusOK); len(done.Clients) != 1 || len(done.Clients[0].Sharing) > 0 {
		t.Errorf("%+v", done)
	}
	time.Sleep(time.Second) //nolint:forbidigo // virtual time
	order("/kick?client=c-red", http.StatusAccepted)
	c.WaitFor(t, "it is back", func() bool { return c.Stats().Streams == 2 })
	if why := c.Stats().LastEnd; why == nil || !strings.Contains(why.Error(), "operator") {
		t.Errorf("its stream ended: %v", why)
	}
	time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
	if n := other.Stats().Streams; n != 1 {
		t.Errorf("another client has opened %d streams", n)
	}
	w.set("red", 2)
	c.WaitFor(t, "the next update", func() bool { return len(c.Held(xdstest.ClusterType)) == 2 })
	time.Sleep(time.Second) //nolint:forbidigo // virtual time
	c.CheckViolations(t)
	other.CheckViolations(t)
	c.Disconnect()
	time.Sleep(time.Second) //nolint:forbidigo // virtual time

	_, text := w.story("c-red")
	for _, want := range []string{
		"a connected (", "a CDS sent 2 resources, ACK after ", "a CDS an operator ordered to resend", "a disconnected: kicked: an operator closed this connection", "a disconnected: closed by the client",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "connected ("); n != 2 {
		t.Errorf("%d connects in\n%s", n, text)
	}
	w.check()
}

// TestOrderIsClear: an order about several clients is refused with a list of them, unless all are
// meant, or a node makes it one.
func TestOrderIsClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		for _, node := range []string{"a", "b"} {
			c := w.client(node, "twin", "red", xdstest.Delta)
			c.Subscribe(xdstest.ClusterType)
			c.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
		}
		synctest.Wait()
		code, text := w.order("a", http.MethodPost, "/kick?client=twin", nil)
		if code != http.StatusConflict || !strings.Contains(text, "2 clients have the name") || !strings.Contains(text, "node a, key") || !strings.Contains(text, "node b, key") {
			t.Errorf("%d %s", code, text)
		}
		if code, text := w.order("a", http.MethodPost, "/kick?client=twi", nil); code != http.StatusNotFound || !strings.Contains(text, `did you mean:\n  twin`) {
			t.Errorf("the beginning of a name: %d %s", code, text)
		}
		var done ops.Ordered
		if code, _ := w.order("a", http.MethodPost, "/kick?client=twin&node=b&dry_run=true", &done); code != http.StatusOK || len(done.Clients) != 1 || done.Clients[0].Node != "b" {
			t.Errorf("%d %+v", code, done)
		}
		if code, _ := w.order("a", http.MethodPost, "/resend?client=twin&all=true", &done); code != http.StatusAccepted || len(done.Clients) != 2 {
			t.Errorf("%d %+v", code, done)
		}
	})
}

// TestOrderNeedsProof: a node whose peer port lets anybody in carries out no orders of other nodes,
// and those of its own operators all the same.
func TestOrderNeedsProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 0, "red")
		alter := w.alter
		w.alter = func(cfg *config.Config) {
			alter(cfg)
			cfg.Tier.Peer.TokenFile = ""
		}
		w.grow(2)
		c := w.client("a", "c-red", "red", xdstest.Delta)
		c.Subscribe(xdstest.ClusterType)
		c.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
		synctest.Wait()
		var done ops.Ordered
		if w.order("b", http.MethodPost, "/kick?client=c-red", &done); len(done.Clients) != 0 || len(done.Silent) != 1 || !strings.Contains(done.Silent[0].Error, "tier.peer.token_file") {
			t.Errorf("%+v", done)
		}
		var all ops.Reconnecting
		if w.order("b", http.MethodPost, "/reconnect?all=true", &all); len(all.Nodes) != 1 || all.Nodes[0].Node != "b" || len(all.Silent) != 1 {
			t.Errorf("%+v", all)
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		if n := c.Stats().Streams; n != 1 {
			t.Errorf("the client has opened %d streams", n)
		}
		done = ops.Ordered{}
		if w.order("a", http.MethodPost, "/resend?client=c-red", &done); len(done.Clients) != 1 || len(done.Silent) != 0 {
			t.Errorf("%+v", done)
		}

		// All that changes something, or that shows more than a status does.
		conn := w.network.Client(t, peerAddr(0))
		for _, order := range []string{"fleet/kick?client=c-red", "fleet/resend?client=c-red", "fleet/reconnect", "fleet/apply?most=1", "fleet/would?candidate=%7B%7D", "release?key=red"} {
			err := conn.ClientConn().Invoke(t.Context(), "/xdsrelay.peer.v1.Peer/Ask", wrapperspb.String(order), &wrapperspb.BytesValue{})
			if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "tier.peer.token_file") {
				t.Errorf("%s: %v, expected PERMISSION_DENIED", order, err)
			}
		}
	})
}

// TestEventsMove: the events of a client that moves to another node are one list, with the move.
func TestEventsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		for _, node := range []string{"a", "b"} {
			c := w.client(node, "mover", "red", xdstest.Delta)
			c.Subscribe(xdstest.ClusterType)
			c.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			c.Disconnect()
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
		}
		all, text := w.story("mover")
		if !strings.Contains(text, "b connected (delta), before that to node a") || len(all.Silent) > 0 || all.More {
			t.Errorf("%s", text)
		}
		if all, text := w.story("move"); all.Name != "move" || len(all.Events) > 0 {
			t.Errorf("the beginning of a name that has left: %s", text)
		}
	})
}
