package h2

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // the server compresses where asked to
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/xdstest"
)

// Methods of the test server.
const (
	echo   = "/test.Test/Echo"   // answers each message with the same
	give   = "/test.Test/Give"   // answers a number with a message of that many bytes
	fail   = "/test.Test/Fail"   // ends with a status
	quiet  = "/test.Test/Quiet"  // sends headers and waits
	absent = "/test.Test/Absent" // is not there
)

// bytesCodec hands messages over as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }
func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// testServer is a real grpc-go server.
type testServer struct {
	*grpc.Server
	addr string
}

func startServer(t testing.TB, options ...grpc.ServerOption) *testServer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, grpc.ForceServerCodecV2(bytesCodec{}), grpc.MaxRecvMsgSize(1<<30), grpc.MaxSendMsgSize(1<<30),
		grpc.WaitForHandlers(true), grpc.UnknownServiceHandler(handle))
	s := &testServer{Server: grpc.NewServer(options...), addr: l.Addr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return s
}

func handle(_ any, ss grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(ss)
	switch method {
	case fail:
		return status.Error(codes.ResourceExhausted, "100 % full: ü")
	case absent:
		return status.Error(codes.Unimplemented, "there is no such method")
	case quiet:
		if err := ss.SendHeader(nil); err != nil {
			return err
		}
	}
	for {
		var b []byte
		if err := ss.RecvMsg(&b); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		switch method {
		case quiet:
			continue
		case give:
			b = pattern(int(binary.BigEndian.Uint32(b)))
		}
		if err := ss.SendMsg(b); err != nil {
			return err
		}
	}
}

// pattern is a message whose every byte says where it stands.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>16 ^ i>>8 ^ i)
	}
	return b
}

func number(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// recorder is a receiver that hands everything to the test.
type recorder struct {
	messages chan []byte
	end      chan Status
	on       func(s *Stream, m []byte) // called first; may be nil
}

func newRecorder() *recorder {
	return &recorder{messages: make(chan []byte, 1000), end: make(chan Status, 1)}
}

func (r *recorder) Message(s *Stream, whole Message) {
	m := whole.AppendFrom(nil, 0)
	if r.on != nil {
		r.on(s, m)
	}
	r.messages <- m
}

func (r *recorder) End(_ *Stream, st Status) { r.end <- st }

func take[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(xdstest.Patience):
		t.Fatalf("waited %v for %s, in vain", xdstest.Patience, what)
		panic("unreachable")
	}
}

// client is a connection that is served.
type client struct {
	*Conn
	served chan error
}

func dial(t testing.TB, cfg Config, addr string) *client {
	t.Helper()
	d, err := NewDialer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial(t.Context(), addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, conn)
}

func serve(t testing.TB, conn *Conn) *client {
	c := &client{Conn: conn, served: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.served <- conn.Serve()
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

// do runs f on the connection's goroutine and waits for it.
func (c *client) do(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	c.Do(func() { f(); close(done) })
	take(t, done, "the connection's goroutine")
}

// open opens a stream and sends messages on it.
func (c *client) open(t testing.TB, method string, messages ...[]byte) (*recorder, *Stream) {
	t.Helper()
	r := newRecorder()
	return r, c.openFor(t, r, CallOptions{Method: method}, messages...)
}

func (c *client) openFor(t testing.TB, r *recorder, o CallOptions, messages ...[]byte) (s *Stream) {
	t.Helper()
	o.Authority = "localhost"
	call, err := NewCall(o)
	if err != nil {
		t.Fatal(err)
	}
	c.do(t, func() {
		if s, err = c.Open(call, r); err == nil {
			for _, m := range messages {
				s.Send(m)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// certificates makes a certificate for localhost and configurations of both
// sides, each of which demands the other's.
func certificates(t testing.TB) (server credentials.TransportCredentials, clientSide *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	server = credentials.NewTLS(&tls.Config{
		Certificates: own, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})
	return server, &tls.Config{Certificates: own, RootCAs: pool, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
}
