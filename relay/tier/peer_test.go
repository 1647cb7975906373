package tier

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/pause"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// other is a node that sends heartbeats and answers questions, in virtual time.
type other struct {
	shard.Member

	mu sync.Mutex
	// Guarded by mu.
	calls    int           // of askMethod
	streams  int           // of beatMethod
	requests int           // for heartbeats
	times    []time.Time   // of answers and heartbeats
	old      bool          // it knows no heartbeats
	silent   chan struct{} // answers and heartbeats wait until it is closed; nil if they do not wait
	endsEach bool          // a stream ends after each heartbeat
	answer   string        // to each question; empty means {}
	sent     bytes.Buffer  // all bytes that it received
}

// recorded is the listener of a node. Its connections record the bytes that the node receives.
type recorded struct {
	net.Listener
	to *other
}

func (r *recorded) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	return &recordedConn{c, r.to}, err
}

type recordedConn struct {
	net.Conn
	to *other
}

func (c *recordedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.to.is(func() { c.to.sent.Write(b[:n]) })
	return n, err
}

// frames counts the frames that it received on one connection, by type.
func (a *other) frames(t *testing.T) map[http2.FrameType]int {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[http2.FrameType]int)
	framer := http2.NewFramer(io.Discard, bytes.NewReader(bytes.TrimPrefix(a.sent.Bytes(), []byte(http2.ClientPreface))))
	for {
		f, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[f.Header().Type]++
	}
}

// listen starts a node that answers until the test ends.
func listen(t *testing.T, network *xdstest.Memory, name string) *other {
	t.Helper()
	l, err := network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &other{Member: shard.Member{Name: name, Peer: l.Addr().String()}}
	// The peer port has fixed windows, too.
	gs := grpc.NewServer(grpc.UnknownServiceHandler(a.serve), grpc.StaticStreamWindowSize(64<<10), grpc.StaticConnWindowSize(64<<10))
	go func() { _ = gs.Serve(&recorded{l, a}) }()
	t.Cleanup(gs.Stop)
	return a
}

func (a *other) serve(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	if strings.HasSuffix(method, "/"+askMethod) {
		a.is(func() { a.calls++ })
		if err := s.RecvMsg(&wrapperspb.StringValue{}); err != nil {
			return err
		}
		if err := a.answers(s.Context()); err != nil {
			return err
		}
		return s.SendMsg(wrapperspb.Bytes([]byte(cmp.Or(a.answer, "{}"))))
	}
	a.mu.Lock()
	old := a.old
	if !old {
		a.streams++
	}
	a.mu.Unlock()
	if old {
		return status.Error(codes.Unimplemented, "this release has no such method")
	}
	return new(Tier).serveHeartbeats(nil, &beating{s, a})
}

// answers records an answer, after it has waited for as long as the node is silent.
func (a *other) answers(ctx context.Context) error {
	a.mu.Lock()
	a.times = append(a.times, time.Now())
	silent := a.silent
	a.mu.Unlock()
	if silent != nil {
		select {
		case <-silent:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// beating is a stream on which a node sends heartbeats.
type beating struct {
	grpc.ServerStream
	of *other
}

func (b *beating) RecvMsg(m any) error {
	err := b.ServerStream.RecvMsg(m)
	if err == nil {
		b.of.is(func() { b.of.requests++ })
	}
	return err
}

func (b *beating) SendMsg(m any) error {
	if err := b.of.answers(b.Context()); err != nil {
		return err
	}
	b.of.mu.Lock()
	last := b.of.endsEach
	b.of.mu.Unlock()
	if err := b.ServerStream.SendMsg(m); err != nil || !last {
		return err
	}
	return io.EOF
}

// is changes how the node behaves.
func (a *other) is(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// counts returns how many answers and heartbeats it has sent, and in how many calls and streams.
func (a *other) counts() (sent, calls, streams int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times), a.calls, a.streams
}

// connected makes the connections of a node to others in a network. It returns at a time between two
// heartbeats; times that are whole seconds later are between two heartbeats as well.
func connected(t *testing.T, network *xdstest.Memory, timeout time.Duration, others ...*other) *Peers {
	t.Helper()
	peers := NewPeers(PeersConfig{Self: "a", Timeout: timeout, DialOptions: []grpc.DialOption{
		network.Option(), grpc.WithTransportCredentials(insecure.NewCredentials()),
	}})
	t.Cleanup(peers.Close)
	var members []shard.Member
	for _, o := range others {
		members = append(members, o.Member)
	}
	peers.retain(shard.NewView(members))
	time.Sleep(beatSeldom / 2) //nolint:forbidigo // virtual time
	return peers
}

// TestHeartbeatsAMinute: a node gets one heartbeat a second from each node that it follows, more only
// if a short owner timeout requires it, and none from a node that it does not follow. It uses one
// stream, which it opens again each minute, so that it presents the token of the tier again.
func TestHeartbeatsAMinute(t *testing.T) {
	for timeout, want := range map[time.Duration]int{2 * time.Second: 60, time.Minute: 60, 200 * time.Millisecond: 600} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := xdstest.NewMemory()
				b := listen(t, network, "b")
				peers := connected(t, network, timeout, b)
				time.Sleep(time.Minute) //nolint:forbidigo // virtual time
				if n, calls, streams := b.counts(); n+calls+streams > 0 {
					t.Errorf("%d heartbeats by %d calls and %d streams from a node that is not followed", n, calls, streams)
				}
				one := peers.use(b.Member)
				const minutes = 5
				time.Sleep(minutes * time.Minute) //nolint:forbidigo // virtual time
				one.leave()
				synctest.Wait()
				n, calls, streams := b.counts()
				if n < minutes*(want-2) || n > minutes*(want+2) {
					t.Errorf("%d heartbeats in %d minutes, expected %d", n, minutes, minutes*want)
				}
				if calls > 0 || streams < minutes-1 || streams > minutes+1 {
					t.Errorf("%d calls and %d streams in %d minutes, expected a stream a minute", calls, streams, minutes)
				}
			})
		})
	}
}

// TestFramesOfHeartbeats: five heartbeats need one frame of the node that gets them.
func TestFramesOfHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		b := listen(t, network, "b")
		one := connected(t, network, 2*time.Second, b).use(b.Member)
		defer one.leave()
		stays(t, one, 50*time.Second)
		n, _, _ := b.counts()
		frames := b.frames(t)
		if frames[http2.FramePing] > 0 || frames[http2.FrameData] > n/beatsEach+1 || frames[http2.FrameHeaders] != 1 {
			t.Errorf("%d heartbeats needed these frames: %v; expected one DATA for %d, one HEADERS and no PING", n, frames, beatsEach)
		}
	})
}

// TestHeartbeatsTogether: all nodes send all heartbeats at the same moments, whenever they have started
// and begun to follow each other, so that each node wakes up once.
func TestHeartbeatsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		others := []*other{listen(t, network, "b"), listen(t, network, "c")}
		for range 2 { // nodes
			time.Sleep(300 * time.Millisecond) //nolint:forbidigo // virtual time
			peers := connected(t, network, 2*time.Second, others...)
			for _, o := range others {
				time.Sleep(300 * time.Millisecond) //nolint:forbidigo // virtual time
				t.Cleanup(peers.use(o.Member).leave)
			}
		}
		began := time.Now()
		moment := began.Add(pause.Next(beatSeldom))
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		for _, o := range others {
			o.mu.Lock()
			n := 0
			for _, at := range o.times {
				if at.Before(moment) {
					continue // the first ones are sent at once
				}
				n++
				if late := at.Sub(moment) % beatSeldom; late > 10*time.Millisecond {
					t.Errorf("a heartbeat of %s is %v late", o.Name, late)
				}
			}
			o.mu.Unlock()
			if n < 16 {
				t.Errorf("%d heartbeats of %s, expected 18", n, o.Name)
			}
		}
	})
}

// TestNodeWithoutHeartbeats: a node that knows no heartbeats is asked by calls, and sends heartbeats after
// its update.
func TestNodeWithoutHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		b := listen(t, network, "b")
		b.old = true
		one := connected(t, network, 2*time.Second, b).use(b.Member)
		defer one.leave()
		stays(t, one, 10*time.Second)
		if n, calls, streams := b.counts(); n < 9 || n > 12 || calls != n || streams > 0 {
			t.Errorf("%d answers by %d calls and %d streams, expected 10 calls", n, calls, streams)
		}
		b.is(func() { b.old = false })
		_, before, _ := b.counts()
		stays(t, one, 10*time.Second)
		if _, calls, streams := b.counts(); calls > before || streams != 1 {
			t.Errorf("%d calls and %d streams after the update, expected one stream", calls-before, streams)
		}
	})
}

// TestStreamOfHeartbeatsThatEnds: a node that ended the stream after a heartbeat, for example by a
// restart, is asked on a new stream at once and stays reachable.
func TestStreamOfHeartbeatsThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		b := listen(t, network, "b")
		b.endsEach = true
		one := connected(t, network, 2*time.Second, b).use(b.Member)
		defer one.leave()
		stays(t, one, 10*time.Second)
		if n, calls, streams := b.counts(); n < 9 || n > 12 || streams != n || calls > 0 {
			t.Errorf("%d heartbeats by %d calls and %d streams, expected 10 streams", n, calls, streams)
		}
	})
}

// TestHeartbeatAfterALateRequest: a request that arrives late is answered at the next moment of all nodes.
func TestHeartbeatAfterALateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		b := listen(t, network, "b")
		one, err := connected(t, network, 2*time.Second, b).call(b.Member)
		if err != nil {
			t.Fatal(err)
		}
		h := heartbeats{plane: one.plane, every: time.Second}
		defer func() { h.end() }()
		for range beatsEach {
			if err := h.next(t.Context(), time.Now().Add(2*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(700 * time.Millisecond) //nolint:forbidigo // virtual time
		began := time.Now()
		want := pause.Next(time.Second)
		if err := h.next(t.Context(), began.Add(2*time.Second)); err != nil || time.Since(began) != want {
			t.Errorf("a heartbeat after %v, %v; expected it after %v", time.Since(began), err, want)
		}
	})
}

// TestHeartbeatsRefused: a request for heartbeats that are too frequent, or that nobody can wait for, is
// refused with what is expected.
func TestHeartbeatsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		b := listen(t, network, "b")
		one, err := connected(t, network, 2*time.Second, b).call(b.Member)
		if err != nil {
			t.Fatal(err)
		}
		for _, every := range []time.Duration{-time.Second, 0, beatOften - 1, streamLife + 1} {
			h := heartbeats{plane: one.plane, every: every}
			err := h.next(t.Context(), time.Now().Add(time.Second))
			h.end()
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "expected 50ms to 1m0s") {
				t.Errorf("every %s: %v", every, err)
			}
		}
	})
}

// TestSilentNode: a node that sends no more heartbeats on an open stream, because its process hangs, is
// unreachable since the first one that is due. That is noticed within the owner timeout and a
// second. The node is reachable again as soon as it answers.
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 2 * time.Second
		network := xdstest.NewMemory()
		b := listen(t, network, "b")
		one := connected(t, network, timeout, b).use(b.Member)
		defer one.leave()
		stays(t, one, 10*time.Second)
		silent, began := make(chan struct{}), time.Now()
		b.is(func() { b.silent = silent })
		lost, changed := one.lost()
		if !lost.IsZero() {
			t.Fatal("it is out of reach already")
		}
		<-changed
		took := time.Since(began)
		if lost, changed = one.lost(); lost.Before(began) || lost.Sub(began) > beatSeldom || took > timeout+beatSeldom {
			t.Errorf("out of reach since %v, noticed after %v; expected %v and %v at most", lost.Sub(began), took, beatSeldom, timeout+beatSeldom)
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		began = time.Now()
		b.is(func() { b.silent = nil })
		close(silent)
		<-changed
		if lost, _ := one.lost(); !lost.IsZero() || time.Since(began) > timeout+beatSeldom {
			t.Errorf("there after %v: %t; expected %v at most", time.Since(began), lost.IsZero(), timeout+beatSeldom)
		}
	})
}

// stays fails the test if a node becomes unreachable within a time, after its first answer.
func stays(t *testing.T, one *peer, during time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	synctest.Wait()
	since, changed := one.lost()
	if !since.IsZero() {
		t.Fatalf("it is out of reach since %v", since)
	}
	select {
	case <-changed:
		t.Error("it was out of reach")
	case <-ctx.Done():
	}
	synctest.Wait()
}
