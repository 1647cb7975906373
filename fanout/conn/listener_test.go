package conn

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
	"pgregory.net/rapid"

	"xdsrelay/relay/aggregation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is a listener whose connections the test supplies.
type queue chan net.Conn

func (q queue) Accept() (net.Conn, error) {
	c, ok := <-q
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (q queue) Close() error   { return nil }
func (q queue) Addr() net.Addr { return &net.TCPAddr{} }

// sink is a connection that records what is written.
type sink struct {
	net.Conn
	bytes.Buffer
	from   string
	closed bool
}

func (s *sink) Write(p []byte) (int, error) { return s.Buffer.Write(p) }
func (s *sink) Read([]byte) (int, error)    { return 0, io.EOF }
func (s *sink) Close() error                { s.closed = true; return nil }
func (s *sink) SetDeadline(time.Time) error { return nil }
func (s *sink) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(s.from), Port: 1}
}

// sendAway waits until GOAWAY was written or is queued behind a frame.
func sendAway(c *Conn, why string, rejectNext bool) {
	done := make(chan struct{})
	if c.GoAway(why, rejectNext, func() { close(done) }) {
		<-done
	}
}

// TestGoAwayBetweenFrames: however writes are split and whenever the connection is drained, the
// client reads whole frames, in order, with one GOAWAY between them (B42).
func TestGoAwayBetweenFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all bytes.Buffer
		fr := http2.NewFramer(&all, nil)
		sizes := rapid.SliceOfN(rapid.IntRange(0, 40), 1, 10).Draw(t, "sizes")
		for i, n := range sizes {
			if err := fr.WriteData(uint32(2*i+1), false, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		s := &sink{from: "192.0.2.1"}
		q := make(queue, 1)
		q <- s
		c, err := New(q, Config{}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn := Of(c.RemoteAddr())
		if conn != c {
			t.Fatal("the address does not know its connection")
		}
		for at := rapid.IntRange(0, all.Len()).Draw(t, "when"); all.Len() > 0; {
			if all.Len() <= at {
				sendAway(conn, "why", false)
			}
			if n, err := c.Write(all.Next(rapid.IntRange(1, 30).Draw(t, "piece"))); err != nil || n == 0 {
				t.Fatal(n, err)
			}
		}
		sendAway(conn, "why", false)
		if conn.GoAway("again", false, nil) || !conn.GoingAway() {
			t.Error("it does not say that it goes")
		}

		read := http2.NewFramer(nil, &s.Buffer)
		data, away := 0, 0
		for {
			f, err := read.ReadFrame()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			switch f := f.(type) {
			case *http2.DataFrame:
				if f.StreamID != uint32(2*data+1) || len(f.Data()) != sizes[data] {
					t.Fatalf("frame %d is %v", data, f)
				}
				data++
			case *http2.GoAwayFrame:
				if f.ErrCode != http2.ErrCodeNo || f.LastStreamID != 1<<31-1 {
					t.Fatalf("frame %v", f)
				}
				away++
			}
		}
		if data != len(sizes) || away != 1 {
			t.Fatalf("%d of %d frames and %d GOAWAY", data, len(sizes), away)
		}
	})
}

// TestTurnAway: a drained client that reconnects at once is refused once, and no other client is.
func TestTurnAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := make(queue, 10)
		turned := 0
		d := New(q, Config{ConnectionRefused: func() { turned++ }})
		come := func(from string) (*sink, *Conn) {
			t.Helper()
			s := &sink{from: from}
			q <- s
			last := &sink{from: "192.0.2.99"}
			q <- last // so that Accept returns in any case
			c, err := d.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if c.(*Conn).Conn == net.Conn(s) {
				<-q
			}
			return s, c.(*Conn)
		}
		_, c := come("192.0.2.1")
		sendAway(c, "full", true)
		if s, _ := come("192.0.2.2"); s.closed {
			t.Error("another one was turned away")
		}
		if s, _ := come("192.0.2.1"); !s.closed || turned != 1 {
			t.Error("who comes back at once was not turned away")
		}
		s, c := come("192.0.2.1")
		if s.closed || turned != 1 {
			t.Error("who comes back again was turned away")
		}
		sendAway(c, "full", true)
		time.Sleep(rejectNextTime + time.Second) //nolint:forbidigo // virtual time
		if s, _ := come("192.0.2.1"); s.closed {
			t.Error("who comes back late was turned away")
		}
		if len(d.rejectNextFrom) != 0 {
			t.Errorf("%v is remembered", d.rejectNextFrom)
		}
		for i := range maxHosts + 10 {
			d.rejectNext(&Conn{from: address{Addr: &net.TCPAddr{IP: net.IPv4(10, byte(i>>16), byte(i>>8), byte(i))}}})
		}
		if len(d.rejectNextFrom) != maxHosts {
			t.Errorf("%d hosts are remembered", len(d.rejectNextFrom))
		}
		time.Sleep(rejectNextTime + time.Second) //nolint:forbidigo // virtual time
		d.rejectNext(c)
		if len(d.rejectNextFrom) != 1 {
			t.Errorf("%d hosts are remembered after their time", len(d.rejectNextFrom))
		}
	})
}

// TestOld: connections reach their age at different times, within the second half of the maximum
// age.
func TestOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age, n = time.Hour, 100
		q := make(queue, n)
		d := New(q, Config{Age: age})
		var all []*Conn
		for range n {
			q <- &sink{from: "192.0.2.1"}
			c, err := d.Accept()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c.(*Conn))
		}
		old := func() (count int) {
			for _, c := range all {
				if c.Old(time.Now()) {
					count++
				}
			}
			return count
		}
		time.Sleep(age/2 - time.Second) //nolint:forbidigo // virtual time
		if got := old(); got != 0 {
			t.Errorf("%d are old too early", got)
		}
		time.Sleep(age / 4) //nolint:forbidigo // virtual time
		if got := old(); got < n/10 || got > n*9/10 {
			t.Errorf("%d of %d are old at three quarters", got, n)
		}
		time.Sleep(age/4 + time.Second) //nolint:forbidigo // virtual time
		if got := old(); got != n {
			t.Errorf("%d of %d are old", got, n)
		}
		if c := (&Conn{}); c.Old(time.Now()) {
			t.Error("without an age a connection is old")
		}
	})
}

// TestCloseEndsArrivals: closing a listener ends the connections on which HTTP/2 has not begun, and
// no others.
func TestCloseEndsArrivals(t *testing.T) {
	q := make(queue, 2)
	d := New(q, Config{})
	var sinks []*sink
	for range 2 {
		s := &sink{from: "192.0.2.1"}
		sinks = append(sinks, s)
		q <- s
		c, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if len(sinks) == 1 {
			if err := c.SetDeadline(time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := c.SetDeadline(time.Time{}); err != nil { // grpc-go does so once HTTP/2 has begun
				t.Fatal(err)
			}
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if sinks[0].closed || !sinks[1].closed {
		t.Errorf("who has arrived is closed: %v, who has not: %v", sinks[0].closed, sinks[1].closed)
	}
	late := &sink{from: "192.0.2.1"}
	q <- late
	if c, err := d.Accept(); err == nil || !late.closed {
		t.Errorf("a closed door lets in %v", c)
	}
}

// TestCredentials: a connection is described by the name of its listener, and served on the
// connection that the handshake returned, from which the listener is known.
func TestCredentials(t *testing.T) {
	refused := errors.New("refused")
	for _, secure := range []func(net.Conn) (net.Conn, aggregation.Connection, error){
		nil,
		func(raw net.Conn) (net.Conn, aggregation.Connection, error) {
			return tls.Server(raw, &tls.Config{}), aggregation.Connection{TLS: &credentials.TLSInfo{}}, nil
		},
		func(net.Conn) (net.Conn, aggregation.Connection, error) {
			return nil, aggregation.Connection{}, refused
		},
	} {
		q := make(queue, 1)
		q <- &sink{from: "192.0.2.1"}
		c, err := New(q, Config{Name: "mesh", Secure: secure}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn, auth, err := Credentials().ServerHandshake(c)
		if errors.Is(err, refused) {
			continue
		}
		if err != nil || Of(conn.RemoteAddr()) != c {
			t.Fatalf("%v, %v", conn, err)
		}
		if info := auth.(*aggregation.Connection); info.Listener != "mesh" || (info.TLS == nil) != (secure == nil) {
			t.Errorf("%+v", info)
		}
		if c.(*Conn).Encrypted() != (secure != nil) { // which an estimate of its memory depends on
			t.Errorf("encrypted: %v", c.(*Conn).Encrypted())
		}
	}
	if conn, auth, err := Credentials().ServerHandshake(&sink{}); conn == nil || auth != nil || err != nil {
		t.Errorf("by no door: %v, %v", auth, err)
	}
}
