package fanout

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/xdstest"
)

// subscribed opens a stream without a transport, whose client has the cluster "a" of version 1 and
// has acknowledged it.
func subscribed(t *testing.T, w *world) *fakeClient {
	t.Helper()
	c := w.openFake(form{delta: true})
	if err := c.say(t, &deltaRequest{Node: xdstest.Node("n", "k"), TypeUrl: cds}); err != nil {
		t.Fatal(err)
	}
	w.asked(cds, "*")
	w.serve("v1", cds, cluster("a", 1))
	synctest.Wait()
	c.ack(t, "1")
	return c
}

// ack acknowledges a response.
func (c *fakeClient) ack(t *testing.T, nonce string) {
	t.Helper()
	if err := c.say(t, &deltaRequest{TypeUrl: cds, ResponseNonce: nonce}); err != nil {
		t.Fatalf("the ACK was refused: %v", err)
	}
}

// TestFullTransport: K19: while the transport has no room, nothing is sent, and nothing is queued.
// When it has room, the client gets the newest state in one response.
func TestFullTransport(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newSilentWorld(t)
		c := subscribed(t, w)
		c.call.full = true
		for v := range 10 {
			w.serve("", cds, cluster("a", v+2))
			synctest.Wait()
		}
		c.ack(t, "2")
		if c.call.sent != 2 || c.call.before != 0 {
			t.Fatalf("%d responses were sent, the last while %d bytes were unanswered, expected 2 and 0", c.call.sent, c.call.before)
		}
		c.Writable()
		if c.call.sent != 3 || !bytes.Contains(c.call.last.Body, resources(t, cluster("a", 11))[0].Body) {
			t.Fatalf("%d responses were sent, expected a third with the newest state", c.call.sent)
		}
		c.Writable()
		c.ack(t, "3")
		if c.call.sent != 3 {
			t.Errorf("%d responses were sent, expected none without news", c.call.sent)
		}
		c.call.End(nil)
		if err := c.end(); err != nil {
			t.Errorf("the stream ended %v", err)
		}
	})
}

// TestUnansweredBytes: B12: a call learns how much the client may not have read, which is nothing
// once the newest response is acknowledged.
func TestUnansweredBytes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newSilentWorld(t, func(c *Config) { c.AckTimeout = time.Second })
		c := subscribed(t, w)
		want := 0
		for v := range 3 {
			w.serve("", cds, cluster("a", v+2))
			time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
			synctest.Wait()
			if c.call.before != want {
				t.Errorf("%d bytes were unanswered, expected %d", c.call.before, want)
			}
			want += c.call.last.Size()
		}
		c.ack(t, "4")
		w.serve("", cds, cluster("a", 9))
		synctest.Wait()
		if c.call.sent != 5 || c.call.before != 0 {
			t.Errorf("after the ACK, response %d was sent while %d bytes were unanswered", c.call.sent, c.call.before)
		}
		c.call.End(nil)
		_ = c.end()
	})
}

// TestRefusedRequest: a stream sends nothing after it has refused a request, and ends later if it
// had an answer.
func TestRefusedRequest(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorldOf(t, cache.Config{Streams: []cache.OriginStream{{MaxNames: 1000}}})
		bad := requestBytes(t, true, strings.Repeat("n", 1001), 0, 0)
		c := subscribed(t, w)
		pause, err := c.Request(append(bad, 0xff))
		if status.Code(err) != codes.InvalidArgument || pause != refusalPause {
			t.Errorf("a malformed request ends the stream after %v with %v", pause, err)
		}
		w.serve("", cds, cluster("a", 2))
		synctest.Wait()
		if c.call.sent != 1 {
			t.Errorf("%d responses were sent, expected none after the refusal", c.call.sent)
		}
		c.Closed()

		silent := w.openFake(form{delta: true})
		pause, err = silent.Request(append(bad, 0xff))
		if status.Code(err) != codes.InvalidArgument || pause != 0 {
			t.Errorf("a malformed first request ends the stream after %v with %v", pause, err)
		}
		silent.Closed()
		if n := len(w.srv.Streams()); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// TestUnreadCall: the client's last message ends the stream with OK, and any other reason is the
// client's.
func TestUnreadCall(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newSilentWorld(t)
		large := status.Error(codes.ResourceExhausted, "too large")
		for _, test := range []struct {
			err, want error
			pause     time.Duration
		}{{io.EOF, nil, 0}, {large, large, refusalPause}} {
			c := subscribed(t, w)
			if pause, err := c.NoMoreRequests(test.err); !errors.Is(err, test.want) || pause != test.pause {
				t.Errorf("after %v the stream ends after %v with %v", test.err, pause, err)
			}
			c.Closed()
		}
	})
}
