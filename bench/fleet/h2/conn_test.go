package h2

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/xdstest"
)

// TestEcho holds that messages of any size arrive whole and in order, in both
// directions, whatever the windows, with and without TLS.
func TestEcho(t *testing.T) {
	sizes := []int{0, 1, 4, 16379, 16384, 70_000, 10 << 20, 3}
	creds, clientTLS := certificates(t)
	tests := []struct {
		name    string
		cfg     Config
		options []grpc.ServerOption
	}{
		{"large windows", Config{}, nil},
		{"small windows", Config{StreamWindow: 65535, ConnWindow: 65535},
			[]grpc.ServerOption{grpc.StaticStreamWindowSize(65535), grpc.StaticConnWindowSize(65535)}},
		{"TLS", Config{TLS: clientTLS, StreamWindow: 1 << 20, ConnWindow: 65535}, []grpc.ServerOption{grpc.Creds(creds)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			traffic := new(Traffic)
			test.cfg.Traffic = traffic
			c := dial(t, test.cfg, startServer(t, test.options...).addr)
			var messages [][]byte
			total := 0
			for _, n := range sizes {
				messages = append(messages, pattern(n))
				total += n
			}
			r, _ := c.open(t, echo, messages...)
			for i, want := range messages {
				if got := take(t, r.messages, "a message"); !bytes.Equal(got, want) {
					t.Fatalf("message %d of %d bytes came back different, with %d bytes", i, len(want), len(got))
				}
			}
			if in, out := int(traffic.In.Load()), int(traffic.Out.Load()); in < total || out < total || in > 2*total || out > 2*total {
				t.Errorf("%d bytes came and %d went, expected a little more than %d", in, out, total)
			}
		})
	}
}

// TestEnd holds that the server's status arrives, with and without headers
// ahead of it.
func TestEnd(t *testing.T) {
	s := startServer(t)
	c := dial(t, Config{}, s.addr)
	r, _ := c.open(t, fail, []byte("x"))
	if got, want := take(t, r.end, "the end"), (Status{Code: codes.ResourceExhausted, Message: "100 % full: ü", Told: true}); got != want {
		t.Errorf("ended with %+v, expected %+v", got, want)
	}
	r, _ = c.open(t, quiet)
	c.do(t, func() { // the connection is still good
		if !c.Usable() || c.Streams() != 1 {
			t.Errorf("usable: %v, with %d streams, expected a usable connection with 1", c.Usable(), c.Streams())
		}
	})
	s.Stop()
	if got := take(t, r.end, "the end"); got.Code != codes.Unavailable || got.Told {
		t.Errorf("ended with %+v by the server's stop, expected UNAVAILABLE of our own", got)
	}
	if err := take(t, c.served, "the end of the connection"); err == nil {
		t.Error("the connection ended without an error")
	}
}

// TestGoAway holds that streams outlive the server's wish to go away, that no
// new ones are opened, and that the connection ends with the last.
func TestGoAway(t *testing.T) {
	s := startServer(t)
	c := dial(t, Config{}, s.addr)
	r, stream := c.open(t, echo, []byte("before"))
	take(t, r.messages, "an echo")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.GracefulStop()
	}()
	xdstest.Eventually(t, "GOAWAY", func() bool {
		usable := true
		c.do(t, func() { usable = c.Usable() })
		return !usable
	})
	c.do(t, func() {
		if _, err := c.Open(&Call{}, r); !errors.Is(err, ErrGoingAway) {
			t.Errorf("a new stream: %v, expected %v", err, ErrGoingAway)
		}
		stream.Send([]byte("after"))
	})
	if got := take(t, r.messages, "an echo"); string(got) != "after" {
		t.Errorf("got %q, expected the echo of what was sent after GOAWAY", got)
	}
	c.Do(stream.Cancel)
	if err := take(t, c.served, "the end of the connection"); !errors.Is(err, ErrGoingAway) {
		t.Errorf("the connection ended with %v, expected %v", err, ErrGoingAway)
	}
	take(t, stopped, "the server's end")
	select {
	case st := <-r.end:
		t.Errorf("a stream that was cancelled was told its end: %v", st)
	default:
	}
}

// TestStreams holds that many streams share a connection and its window.
func TestStreams(t *testing.T) {
	c := dial(t, Config{ConnWindow: 100_000, StreamWindow: 70_000}, startServer(t, grpc.StaticConnWindowSize(65535)).addr)
	const n = 50
	var all [n]*recorder
	for i := range all {
		all[i], _ = c.open(t, echo, pattern(200_000+i))
	}
	for i, r := range all {
		if got := take(t, r.messages, "an echo"); !bytes.Equal(got, pattern(200_000+i)) {
			t.Errorf("stream %d: the echo differs", i)
		}
	}
}

// TestGzip holds that compressed messages are understood where they were
// offered.
func TestGzip(t *testing.T) {
	s := startServer(t, grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		if err := grpc.SetSendCompressor(ss.Context(), "gzip"); err != nil {
			return err
		}
		return h(srv, ss)
	}))
	traffic := new(Traffic)
	c := dial(t, Config{Traffic: traffic, MaxMessage: 2 << 20}, s.addr)
	r := newRecorder()
	stream := c.openFor(t, r, CallOptions{Method: give, Gzip: true}, number(1<<20))
	if got := take(t, r.messages, "a message"); !bytes.Equal(got, pattern(1<<20)) {
		t.Errorf("a compressed message of %d bytes differs from what was sent", len(got))
	}
	if in := traffic.In.Load(); in > 1<<19 {
		t.Errorf("%d bytes came for a message of 1 MiB, expected it to be compressed", in)
	}
	c.Do(func() { stream.Send(number(3 << 20)) })
	if st := take(t, r.end, "the end"); st.Code != codes.Internal || !strings.Contains(st.Message, "more than 2097152 bytes") {
		t.Errorf("a message that inflates beyond the limit: %v, expected INTERNAL", st)
	}
	// Nothing is compressed for those who do not offer it.
	r = newRecorder()
	c.openFor(t, r, CallOptions{Method: give}, number(1000))
	if st := take(t, r.end, "the end"); !st.Told || !strings.Contains(st.Message, "gzip") {
		t.Errorf("a compressor that was not offered: %v, expected the server to refuse it", st)
	}
}

// TestPaused holds that a paused connection reads nothing, and that it can be
// closed.
func TestPaused(t *testing.T) {
	traffic := new(Traffic)
	c := dial(t, Config{Traffic: traffic, ReceiveBuffer: 4096}, startServer(t).addr)
	r := newRecorder()
	r.on = func(s *Stream, _ []byte) {
		s.conn.Pause()
		s.Send(number(5 << 20)) // of which nothing is to arrive
	}
	c.openFor(t, r, CallOptions{Method: give}, number(10))
	take(t, r.messages, "a message")
	if in := traffic.In.Load(); in > 2000 {
		t.Errorf("%d bytes were read, expected the first message alone", in)
	}
	c.Close()
	if st := take(t, r.end, "the end"); st.Code != codes.Unavailable {
		t.Errorf("ended with %v, expected UNAVAILABLE", st)
	}
}

// TestSlow holds that a read rate is kept, roughly: 20 kB at 100 kB a second
// need some waits, and arrive.
func TestSlow(t *testing.T) {
	c := dial(t, Config{}, startServer(t).addr)
	c.do(t, func() { c.SetReadRate(100_000) })
	r, _ := c.open(t, give, number(20_000))
	if got := take(t, r.messages, "a message"); !bytes.Equal(got, pattern(20_000)) {
		t.Error("the message differs")
	}
}

// TestTooLarge holds that a message beyond the limit ends its stream and
// nothing else.
func TestTooLarge(t *testing.T) {
	c := dial(t, Config{MaxMessage: 1000}, startServer(t).addr)
	large, _ := c.open(t, give, number(1001))
	if st := take(t, large.end, "the end"); st.Code != codes.ResourceExhausted {
		t.Errorf("ended with %v, expected RESOURCE_EXHAUSTED", st)
	}
	fits, _ := c.open(t, give, number(1000))
	take(t, fits.messages, "a message")
}

// TestBreach holds that a server is told why the connection ends that it broke
// the rules on, and that another kind of server is recognised.
func TestBreach(t *testing.T) {
	for says, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n": `but with "HTTP/1.1 ": is it one of HTTP/2?`,
		"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x06\x00\x00\x00\x00\x00x": "PING of 1 bytes",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		goodbye := make(chan *http2.GoAwayFrame, 1)
		go func() {
			defer close(goodbye)
			nc, err := l.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			if _, err := io.ReadFull(nc, make([]byte, len(preface))); err != nil {
				return
			}
			_, _ = nc.Write([]byte(says))
			for framer := http2.NewFramer(nil, nc); ; {
				f, err := framer.ReadFrame()
				if err != nil {
					return
				}
				if f, ok := f.(*http2.GoAwayFrame); ok {
					goodbye <- f
				}
			}
		}()
		c := dial(t, Config{}, l.Addr().String())
		err = take(t, c.served, "the end of the connection")
		if _, ok := errors.AsType[*ProtocolError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("the connection ended with %v, expected a breach: %s", err, want)
		}
		if f := take(t, goodbye, "GOAWAY"); f == nil || f.ErrCode == http2.ErrCodeNo {
			t.Errorf("the server was told %v, expected a reason", f)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefused holds what comes of connections that cannot be made.
func TestRefused(t *testing.T) {
	creds, clientTLS := certificates(t)
	s := startServer(t, grpc.Creds(creds))
	try := func(cfg Config) error {
		d, err := NewDialer(cfg)
		if err != nil {
			return err
		}
		c, err := d.Dial(t.Context(), s.addr, nil)
		if err == nil {
			c.Close()
		}
		return err
	}
	wrong := clientTLS.Clone()
	wrong.NextProtos = nil
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{Config{TLS: &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}}, "certificate"},
		{Config{TLS: wrong}, "expected h2"},
		{Config{StreamWindow: 100}, "a window of 100 bytes"},
		{Config{ConnWindow: 1 << 31}, "a window of 2147483648 bytes"},
	} {
		if err := try(test.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, expected an error with %q", err, test.want)
		}
	}
	for _, o := range []CallOptions{{}, {Method: "x", Authority: "y"}, {Method: "/x"}, {Method: "/" + strings.Repeat("~", 20_000), Authority: "y"}} {
		if _, err := NewCall(o); err == nil {
			t.Errorf("a call of %.20q at %q was accepted", o.Method, o.Authority)
		}
	}
}
