package rest

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/xdstest"
)

// TestRequired: New fails if a required field is missing.
func TestRequired(t *testing.T) {
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "Cache") {
		t.Errorf("New: %v", err)
	}
}

// dial opens a plain connection.
func (w *world) dial() net.Conn {
	w.t.Helper()
	c, err := w.network.Dial(context.Background(), strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatalf("dial: %v", err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(xdstest.PatienceHere()))
	return c
}

// TestSlowRequests: the server does not wait for a client that sends its request in small pieces.
func TestSlowRequests(t *testing.T) {
	// Long enough to read what was sent at once on a busy machine.
	w := newWorld(t, func(c *Config) { c.ReadTimeout = 20 * quiet })
	var clients sync.WaitGroup
	for _, tc := range []struct{ sent, want string }{ // want "": no answer is due
		{"", ""},
		{"POST " + clusters + " HTTP/1.1\r\nHost: x\r\nX-", ""},
		{"POST " + clusters + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "HTTP/1.1 408 "},
		{"POST " + clusters + " HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10), "HTTP/1.1 431 "},
	} {
		c := w.dial()
		clients.Go(func() {
			_, _ = io.WriteString(c, tc.sent)
			got, err := io.ReadAll(c) // until the server closes
			if isTimeout(err) || !strings.HasPrefix(string(got), tc.want) {
				t.Errorf("%.40q: got %.80q, %v", tc.sent, got, err)
			}
		})
	}
	clients.Wait()
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// TestHoldOutlivesTheReadTimeout: the time for reading a request does not bound the wait for a
// change (H4).
func TestHoldOutlivesTheReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, xdstest.NewMemory(), func(c *Config) { c.ReadTimeout = quiet })
		w.known(clusters, cluster("a", 1))
		version := w.has(w.post(clusters, ask("")), "a")
		for range 2 { // on the same connection
			done := w.waiting(1, clusters, ask(version))
			w.silent(done)
			w.silent(done)
			w.change(cds, nil, cluster("a", len(version)+2))
			version = w.has(w.arrives(done), "a")
			w.change(cds, nil, cluster("a", 1))
			version = w.has(w.post(clusters, ask(version)), "a")
		}
	})
}

// TestSlowReader: a client that does not read its answer is disconnected, and nothing waits for it
// (K19).
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, xdstest.NewMemory(), func(c *Config) { c.SendTimeout = quiet })
		var many []string
		for i := range 8 { // more than the network holds
			many = append(many, strings.Repeat(string(rune('a'+i)), 64<<10))
		}
		w.known(clusters, cluster(many[0], 1))
		for i, name := range many[1:] {
			w.change(cds, nil, cluster(name, i))
		}
		c := w.dial()
		body := ask("")
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", clusters, len(body), body)
		if _, err := bufio.NewReaderSize(c, 16).Peek(1); err != nil { // the answer is being sent
			t.Fatal(err)
		}
		w.watched(0)
		xdstest.Eventually(t, "the answer to be given up", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), quiet)
			defer cancel()
			return w.srv.http.Shutdown(ctx) == nil // when all connections are idle
		})
	})
}

// TestDrain: a drain accepts no connections, lets polls in progress end, and closes connections
// (B42).
func TestDrain(t *testing.T) {
	w := newWorld(t)
	w.known(clusters, cluster("a", 1))
	version := w.has(w.post(clusters, ask("")), "a")
	waits, news := w.waiting(1, clusters, ask(version)), w.waiting(2, clusters, ask(version, "a", "b"))
	w.asked(cds, "*", "a", "b")
	if err := w.srv.Drain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	w.unchanged(w.arrives(waits))
	w.unchanged(w.arrives(news))
	w.client.CloseIdleConnections()
	if _, err := w.try(t.Context(), http.MethodPost, clusters, strings.NewReader(ask(""))); err == nil {
		t.Error("a connection was taken after the drain")
	}
}

// TestDrainIsCutShort: Drain returns when its context ends, and Close ends the rest.
func TestDrainIsCutShort(t *testing.T) {
	w := newWorld(t)
	ended := make(chan error, 1)
	go func() {
		_, err := w.try(context.Background(), http.MethodPost, clusters, strings.NewReader(ask("")))
		ended <- err
	}()
	w.watched(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.srv.Drain(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("drain: %v", err)
	}
	w.srv.Close()
	if err := <-ended; err == nil {
		t.Error("the poll has an answer")
	}
	w.watched(0)
}

// TestPeer: rules see what a client's certificate proves, and its address without one (K6).
func TestPeer(t *testing.T) {
	rules, err := aggregation.Compile([]aggregation.Rule{
		{Match: "peer.authenticated", Key: "peer.common_name"},
		{Match: "peer.address.startsWith('127.0.0.1:')", Key: "'nobody'"},
	}, aggregation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, hold(-1), func(c *Config) { c.Rules = func() *aggregation.Rules { return rules } })
	w.post(clusters, ask(""))
	cert, pool := certificate(t, "somebody")
	server := httptest.NewUnstartedServer(w.srv)
	server.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool}
	server.StartTLS()
	defer server.Close()
	w.url, w.client = server.URL, server.Client()
	w.client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{cert}
	w.post(clusters, ask(""))
	for _, want := range []string{"nobody", "somebody"} {
		w.feed = nil
		if got := string(w.origin().Key()); !strings.HasPrefix(got, want) {
			t.Errorf("a client has the key %q, expected %q", got, want)
		}
	}
}

// certificate makes a client certificate and a pool that trusts it.
func certificate(t *testing.T, commonName string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: commonName}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestMetrics: polls are counted by type and status.
func TestMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	w := newWorld(t, func(c *Config) {
		c.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
	})
	w.known(clusters, cluster("a", 1))
	version := w.has(w.post(clusters, ask("")), "a")
	w.post("/", "")
	w.do(http.MethodGet, clusters, nil)
	done := w.waiting(1, clusters, ask(version))
	xdstest.Eventually(t, "the poll to be counted as one that waits", func() bool {
		return value(t, reader, "xdsrelay.rest.waiting_polls") == 1
	})
	w.change(cds, nil, cluster("a", 2))
	w.has(w.arrives(done), "a")
	typ := "envoy.config.cluster.v3.Cluster"
	for _, tc := range []struct {
		typ, status string
		want        int64
	}{{typ, "200", 2}, {typ, "405", 1}, {"none", "404", 1}, {typ, "304", 0}} {
		xdstest.Eventually(t, fmt.Sprintf("%d polls of %s with %s", tc.want, tc.typ, tc.status), func() bool {
			return value(t, reader, "xdsrelay.rest.polls", attribute.String("type", tc.typ), attribute.String("status", tc.status)) == tc.want
		})
	}
	if value(t, reader, "xdsrelay.rest.waiting_polls") != 0 || value(t, reader, "xdsrelay.rest.sent", attribute.String("type", typ), attribute.String("status", "200")) < 100 {
		t.Error("wrong counts")
	}
}

// value returns the value of a metric for some attributes; 0 if there is none.
func value(t *testing.T, reader sdkmetric.Reader, name string, attrs ...attribute.KeyValue) int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	set := attribute.NewSet(attrs...)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				if p.Attributes.Equals(&set) {
					return p.Value
				}
			}
		}
	}
	return 0
}

// TestCloseIdle: when memory is short, connections without a poll in progress are closed; waiting
// polls continue.
func TestCloseIdle(t *testing.T) {
	w := newWorld(t)
	idle, err := w.network.Dial(t.Context(), strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	_, _ = io.WriteString(idle, "GET /nothing HTTP/1.1\r\nHost: relay\r\n\r\n")
	in := bufio.NewReader(idle)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	closed := make(chan error, 1)
	go func() {
		_, err := in.ReadByte()
		closed <- err
	}()
	xdstest.Eventually(t, "the idle connection to be closed", func() bool {
		w.srv.CloseIdle() // the server may not know yet that it is idle
		select {
		case err := <-closed:
			return err != nil
		default:
			return false
		}
	})
}
