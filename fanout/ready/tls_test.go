package ready

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	mrand "math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"
	"unsafe"
)

// tlsPair returns both ends of a TLS connection after the handshake.
func tlsPair(t *testing.T) (near, far *tls.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	a, b := pair(t, "tcp", "127.0.0.1:0")
	near = tls.Server(a, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: own, ClientAuth: tls.RequireAnyClientCert})
	far = tls.Client(b, &tls.Config{InsecureSkipVerify: true, Certificates: own}) //nolint:gosec // the certificate is that of this test
	done := make(chan error, 1)
	go func() { done <- far.HandshakeContext(context.Background()) }()
	if err := errors.Join(near.HandshakeContext(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// TestTLSReleased: a TLS connection that waits keeps no more of its read buffers than it needs to
// read a small request, whatever it has read before; and it reads what was sent, while it writes.
func TestTLSReleased(t *testing.T) {
	if !known {
		t.Fatal("crypto/tls is not as expected: idle TLS connections keep their buffers; see offsets")
	}
	near, far := tlsPair(t)
	want := make([]byte, 300_000)
	_, _ = rand.Read(want)
	go func() {
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+mrand.N(40_000)>>mrand.N(16))
			if _, err := far.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	}()
	echoed := make(chan struct{})
	go func() {
		defer close(echoed)
		buf := make([]byte, 1000)
		for n := 0; n < len(want); {
			k, err := far.Read(buf)
			if err != nil {
				t.Error(err)
				return
			}
			n += k
		}
	}()
	pool, r := &counting{}, NewReader(near)
	var got bytes.Buffer
	for got.Len() < len(want) {
		buf, n, err := r.ReadOnReady(1+mrand.N(8192), pool)
		if err != nil {
			t.Fatal(err)
		}
		got.Write((*buf)[:n])
		if _, err := near.Write((*buf)[:n]); err != nil {
			t.Fatal(err)
		}
	}
	<-echoed
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("other bytes were read than were sent")
	}
	if err := near.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.ReadOnReady(100, pool); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	at := unsafe.Pointer(near)
	raw, hand := (*bytes.Buffer)(unsafe.Add(at, fields.raw)).Cap(), (*bytes.Buffer)(unsafe.Add(at, fields.hand)).Cap()
	if raw == 0 || raw > keptSize || hand != 0 {
		t.Errorf("it keeps %d bytes for records and %d for handshake messages", raw, hand)
	}
}

// TestTLSUnknown: buffers of connections that are made differently are left alone.
func TestTLSUnknown(t *testing.T) {
	for _, of := range []reflect.Type{
		reflect.TypeFor[struct{}](),
		reflect.TypeFor[struct{ rawInput, hand bytes.Buffer }](),
		reflect.TypeFor[struct {
			rawInput, hand *bytes.Buffer
			input          bytes.Reader
		}](),
	} {
		if _, ok := offsetsOf(of); ok {
			t.Errorf("%v is taken for a TLS connection", of)
		}
	}
}
