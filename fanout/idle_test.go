package fanout

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/xdstest"
)

// idleConnections is how many connections of each kind TestIdleConnectionsPinNoBuffer opens.
const idleConnections = 200

// TestIdleConnectionsPinNoBuffer: an idle connection of the product's listeners takes hardly more
// memory than one that grpc-go accepts itself, which pins no read buffer; with TLS, it takes less
// than such a buffer more than TLS itself.
func TestIdleConnectionsPinNoBuffer(t *testing.T) {
	limits, err := limit.New(limit.Values{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newSilentWorld(t, func(c *Config) { c.Limits = limits })
	gs := grpc.NewServer(w.srv.ServerOptions()...)
	w.srv.Register(gs)
	authority := xdstest.NewAuthority(t, "test")
	secure := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{xdstest.PairOf(t, []string{"127.0.0.1"}, authority.Issue)},
	}
	serve := func(wrap func(net.Listener) net.Listener) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = gs.Serve(wrap(l))
		}()
		t.Cleanup(func() { <-served })
		return l.Addr().String()
	}
	// The memory of TLS itself, without HTTP/2.
	alone := func(raw net.Conn) (net.Conn, error) {
		c := tls.Server(raw, secure)
		err := c.Handshake()
		return c, err
	}
	bare := serve(func(l net.Listener) net.Listener { return l })
	plain := serve(func(l net.Listener) net.Listener {
		return w.srv.Listen(limits.Listen(l, true), Listener{Name: "plain"})
	})
	overTLS := serve(func(l net.Listener) net.Listener {
		return w.srv.Listen(limits.Listen(l, false), Listener{Name: "tls", Secure: func(raw net.Conn) (net.Conn, aggregation.Connection, error) {
			c, err := alone(raw)
			return c, aggregation.Connection{}, err
		}})
	})
	t.Cleanup(gs.Stop)

	trusting := authority.ClientTLS(nil)
	trusting.ServerName, trusting.NextProtos = "127.0.0.1", []string{"h2"}
	dialTLS := func(c net.Conn) net.Conn { return tls.Client(c, trusting) }
	asIs := func(c net.Conn) net.Conn { return c }
	perBare := perIdle(t, bare, asIs)
	got := perIdle(t, plain, asIs)
	t.Logf("bytes of an idle connection: %d of grpc-go's own, %d of the product", perBare, got)
	if got > perBare+4096 {
		t.Errorf("an idle connection takes %d bytes, expected at most 4 KiB more than %d", got, perBare)
	}
	// Both ends of TLS are in this process.
	ends := tlsAlone(t, alone, dialTLS)
	got = perIdle(t, overTLS, dialTLS)
	t.Logf("with TLS: %d of TLS alone at both ends, %d of the product and a client", ends, got)
	if got > perBare+ends+4096 {
		t.Errorf("an idle connection with TLS takes %d bytes, expected at most 4 KiB more than %d and the %d of TLS", got, perBare, ends)
	}
}

// perIdle opens connections that send only what HTTP/2 requires, and returns how many bytes of live
// memory each takes.
func perIdle(t *testing.T, address string, wrap func(net.Conn) net.Conn) int {
	t.Helper()
	open := func() func() {
		raw, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c := wrap(raw)
		_, _ = io.WriteString(c, http2.ClientPreface)
		f := http2.NewFramer(c, c)
		_ = f.WriteSettings()
		// The server answers its settings, then the client's, then a ping: then it has read
		// everything, and waits.
		for acks := 0; acks < 2; {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch s := frame.(type) {
			case *http2.SettingsFrame:
				if s.IsAck() {
					acks++
					_ = f.WritePing(false, [8]byte{1})
				} else {
					_ = f.WriteSettingsAck()
				}
			case *http2.PingFrame:
				acks++
			}
		}
		return func() { _ = c.Close() }
	}
	return perOpened(open)
}

// tlsAlone returns how many bytes both ends of a connection take for TLS.
func tlsAlone(t *testing.T, server func(net.Conn) (net.Conn, error), client func(net.Conn) net.Conn) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return perOpened(func() func() {
		near := make(chan net.Conn)
		go func() {
			raw, err := l.Accept()
			if err != nil {
				t.Error(err)
				close(near)
				return
			}
			c, err := server(raw)
			if err != nil {
				t.Error(err)
			}
			_, _ = c.Write([]byte("x"))
			near <- c
		}()
		raw, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far := client(raw)
		if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		c := <-near
		return func() {
			_ = far.Close()
			_ = c.Close()
		}
	})
}

// perOpened returns how many bytes of live memory each connection takes of the many that open
// opens: the median of some attempts, since what earlier tests left may be freed meanwhile.
func perOpened(open func() (end func())) int {
	tries := []int{perOpenedOnce(open), perOpenedOnce(open), perOpenedOnce(open)}
	slices.Sort(tries)
	return tries[1]
}

func perOpenedOnce(open func() (end func())) int {
	live := func() int64 {
		var m runtime.MemStats
		for range 3 { // pools are emptied at the second garbage collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	open()() // shared by all of them
	before := live()
	ends := make([]func(), idleConnections)
	for i := range ends {
		ends[i] = open()
	}
	after := live()
	for _, end := range ends {
		end()
	}
	return int(after-before) / idleConnections
}
