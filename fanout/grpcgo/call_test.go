package grpcgo

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/transport"
)

// TestRequests: each request is passed on whole, the beginning of a long first one before the rest.
// The reason of the first End is passed on, and is the client's.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream(t)
		c, ended := serve(t, f)
		f.requests <- make([]byte, 100_000)
		c.expect(t, "begin 65536 of 100000", "request of 100000")
		f.requests <- make([]byte, 100_000)
		f.requests <- nil
		c.expect(t, "request of 100000", "request of 0")
		first := status.Error(codes.Unavailable, "first")
		c.call.End(first)
		c.call.End(status.Error(codes.Unavailable, "second"))
		c.expect(t, "unread", "closed")
		if err := <-ended; !errors.Is(err, first) || !errors.Is(c.reason, first) || f.written.Message() != "first" {
			t.Errorf("the call ended %v, the client saw %v, and %v was written", err, c.reason, f.written)
		}
		if !c.call.Ended() {
			t.Error("the call has not ended")
		}
	})
}

// TestSmallFirstRequest is passed on at once.
func TestSmallFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream(t)
		c, ended := serve(t, f)
		f.requests <- make([]byte, transport.SmallRequest)
		c.expect(t, "request of 2048")
		f.requests <- make([]byte, 2<<20)
		c.expect(t, "unread", "closed")
		if err := <-ended; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("after a request over the limit the call ended %v", err)
		}
	})
}

// TestPause: the next request is read after the pause, and the call ends after it; End and the
// client's leaving cut it short.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream(t)
		c, ended := serve(t, f)
		broken := status.Error(codes.InvalidArgument, "refused")
		refused := false
		c.request = func([]byte) (time.Duration, error) {
			if refused {
				return time.Minute, broken
			}
			refused = true
			return time.Hour, nil
		}
		began := time.Now()
		f.requests <- nil
		f.requests <- nil
		c.expect(t, "request of 0", "request of 0")
		if took := time.Since(began); took != time.Hour {
			t.Errorf("the second request was read after %v", took)
		}
		c.expect(t, "closed")
		if err := <-ended; !errors.Is(err, broken) || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("the call ended %v after %v", err, time.Since(began))
		}

		f = newFakeStream(t)
		c, ended = serve(t, f)
		c.request = func([]byte) (time.Duration, error) { return time.Hour, broken }
		f.requests <- nil
		c.expect(t, "request of 0")
		synctest.Wait()
		began = time.Now()
		c.call.End(nil)
		c.expect(t, "closed")
		if err := <-ended; !errors.Is(err, broken) || time.Since(began) != 0 || f.written.Code() != codes.OK {
			t.Errorf("the call ended %v, End was written as %v and took %v", err, f.written, time.Since(began))
		}
	})
}

// TestSlowSend: while the client may have room, Send sends; beyond that, a goroutine does, and the
// client is writable when it has.
func TestSlowSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream(t)
		release := make(chan struct{})
		c, ended := serve(t, f)
		m := &transport.Message{Body: []byte("x")}
		if !c.call.Send(m, inlineBudget-1) || f.sent.Load() != 1 {
			t.Error("the message was not sent at once")
		}
		f.send = func(transport.Message) error { <-release; return nil }
		if c.call.Send(m, inlineBudget) {
			t.Error("the call is writable")
		}
		synctest.Wait()
		select {
		case e := <-c.events:
			t.Fatalf("while the message is sent the client sees %q", e)
		default:
		}
		close(release)
		c.expect(t, "writable")
		c.call.End(nil)
		c.expect(t, "unread", "closed")
		if err := <-ended; err != nil {
			t.Errorf("the call ended %v", err)
		}
	})
}

// TestUnsent: a message that is not sent in time ends the call, which is closed when the send has
// returned.
func TestUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream(t)
		c, ended := serve(t, f)
		left := make(chan struct{})
		f.send = func(transport.Message) error {
			<-f.ctx.Done()
			<-left
			return f.ctx.Err()
		}
		began := time.Now()
		c.call.Send(&transport.Message{}, inlineBudget)
		c.expect(t, "unread")
		if took := time.Since(began); took != sendTimeout || !errors.Is(c.reason, errUnsent) {
			t.Errorf("the call ended after %v with %v", took, c.reason)
		}
		synctest.Wait()
		if len(c.events) > 0 {
			t.Error("the client was closed during a send")
		}
		close(left)
		c.expect(t, "closed")
		if err := <-ended; !errors.Is(err, errUnsent) {
			t.Errorf("the call ended %v", err)
		}
	})
}

// TestFailedSend: an error of a send ends the call. A connection that was closed is Canceled, as for a
// failed read: the client, or the network, has ended the call.
func TestFailedSend(t *testing.T) {
	for _, test := range []struct {
		zips bool
		err  error
		want codes.Code
	}{
		{true, errBroken, codes.Canceled},
		{true, status.Error(codes.Canceled, "gone"), codes.Canceled},
		{false, status.Error(codes.Unavailable, "transport is closing"), codes.Canceled},
		{false, status.Error(codes.ResourceExhausted, "too large"), codes.ResourceExhausted},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeStream(t)
			f.zips = test.zips
			c, ended := serve(t, f)
			if c.call.Compress() != test.zips {
				t.Fatalf("the call is compressed: %t", !test.zips)
			}
			f.send = func(transport.Message) error { return test.err }
			if c.call.Send(&transport.Message{}, 0) {
				t.Error("the call is writable after an error")
			}
			c.expect(t, "unread", "closed")
			if err := <-ended; status.Code(err) != test.want {
				t.Errorf("after %q the call ended %v", test.err, err)
			}
		})
	}
}

// TestRefusedCall: the reason is the client's, also if it is asked to leave and its connection is
// unknown.
func TestRefusedCall(t *testing.T) {
	reason := status.Error(codes.ResourceExhausted, "full")
	for _, refusal := range []error{reason, &transport.Away{Reason: reason}} {
		err := newAdapter().serve(newFakeStream(t), 1, func(transport.Call) (transport.Client, error) { return nil, refusal })
		if err != reason { //nolint:errorlint // gRPC sees what the handler returns
			t.Errorf("%v became %v", refusal, err)
		}
	}
}

// TestForeignStream: without grpc-go's own streams the handler returns an error with the reason.
func TestForeignStream(t *testing.T) {
	err := newAdapter().serve(&fakeStream{ctx: t.Context()}, 1, func(transport.Call) (transport.Client, error) {
		t.Error("a call was made")
		return nil, io.EOF
	})
	if status.Code(err) != codes.Internal {
		t.Fatalf("the stream ended %v", err)
	}
}

// TestCallSize holds what each stream costs besides grpc-go's own, in bytes.
func TestCallSize(t *testing.T) {
	if got := unsafe.Sizeof(call{}); got > 80 {
		t.Errorf("a call takes %d bytes", got)
	}
}

// TestCostOfASend: a send allocates nothing, and a compressed one only what grpc-go is passed.
func TestCostOfASend(t *testing.T) {
	for zips, most := range map[bool]float64{false: 0, true: 8} {
		f := newFakeStream(t)
		f.zips = zips
		c := &call{grpc: sink{f}, adapter: newAdapter()}
		if c.Compress() != zips {
			t.Fatalf("the call is compressed: %t", !zips)
		}
		m := &transport.Message{Body: []byte("body"), Tail: []byte("tail"), Compressed: zips}
		if got := testing.AllocsPerRun(100, func() { c.Send(m, 0) }); got > most {
			t.Errorf("a send costs %v allocations (compressed %t), at most %v are meant", got, zips, most)
		}
	}
}

// sink is a stream that drops messages.
type sink struct{ *fakeStream }

func (sink) SendMsg(any) error { return nil }

var _ grpc.ServerStream = sink{}
