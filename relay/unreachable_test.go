package relay_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"xdsrelay/relay"
	"xdsrelay/relay/xdstest"
)

// TestUnreachableAtStart: a control plane that cannot be reached is logged once and shown
// before any client connects, while the node stays ready (it may have a last known good
// state, and another node would reach no more). When the control plane returns, that is
// noticed, too, over one connection without a stream.
func TestUnreachableAtStart(t *testing.T) {
	origin := xdstest.NewOrigin(t)
	network := xdstest.NewNetwork(t, origin.Addr())
	network.Refuse()
	var log lines
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{network.Addr()}
	cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max = 20*time.Millisecond, 100*time.Millisecond
	n := startWith(t, cfg, relay.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	shows := func(path string) bool {
		code, text := n.get(t, path)
		return code == http.StatusOK && strings.Contains(text, network.Addr()) && strings.Contains(text, "connection refused")
	}
	for _, path := range []string{"/readyz?verbose", "/debug/upstreams", "/api/v1/live"} {
		xdstest.Eventually(t, path+" to show it", func() bool { return shows(path) })
	}
	if code, text := n.get(t, "/readyz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("/readyz: %d %q, expected the node to stay ready", code, text)
	}
	if err := network.Accept(); err != nil {
		t.Fatal(err)
	}
	xdstest.Eventually(t, "the return to be noticed", func() bool {
		_, text := n.get(t, "/readyz?verbose")
		return text == "ok\n"
	})
	for _, once := range []string{"level=WARN", "cannot connect to the control plane", "the control plane is reachable again"} {
		if n := log.count(once); n != 1 {
			t.Errorf("%q is in the log %d times, expected once", once, n)
		}
	}
	if open, ever := network.Connections(); open != 1 || ever != 1 {
		t.Errorf("%d connections are open, %d were made, expected one", open, ever)
	}
	if up, down := network.Carried(); up+down > 1000 {
		t.Errorf("%d and %d bytes were sent over a connection that nobody uses", up, down)
	}
}

// TestCheckConnections: each step that can fail on the way to a control plane is named,
// and nothing is asked for where all succeed.
func TestCheckConnections(t *testing.T) {
	t.Parallel()
	origin := xdstest.NewOrigin(t)
	authority, other := xdstest.NewAuthority(t, "cp"), xdstest.NewAuthority(t, "other")
	cert, key, ca := authority.WriteFiles(t.TempDir(), "localhost")
	_, _, otherCA := other.WriteFiles(t.TempDir(), "localhost")
	pair := xdstest.PairOf(t, []string{"localhost"}, authority.Issue)
	plain, secured := serveNothing(t), serveNothing(t, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	_, port, _ := net.SplitHostPort(secured)
	refused := xdstest.NewNetwork(t, origin.Addr())
	refused.Refuse()
	for _, test := range []struct {
		name, address, ca string
		want              string
	}{
		{"good", origin.Addr(), "", ""},
		{"refused", refused.Addr(), "", "cannot connect: "},
		{"no such host", "nowhere.invalid:18000", "", "cannot connect: "},
		{"no xDS", plain, "", "the server refused the stream /envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources: Unimplemented: "},
		{"TLS, asked in plaintext", secured, "", "connected, but no HTTP/2 server answers in plaintext"},
		{"TLS of another authority", "localhost:" + port, otherCA, "connected, but TLS failed: "},
		{"TLS of another name", secured, ca, "connected, but TLS failed: "},
		{"TLS without xDS", "localhost:" + port, ca, "the server refused the stream "},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Upstream.Addresses = []string{test.address}
			if test.ca != "" {
				cfg.Upstream.TLS.CAFile, cfg.Upstream.TLS.CertFile, cfg.Upstream.TLS.KeyFile = test.ca, cert, key
			}
			var good []string
			err := relay.CheckConnections(t.Context(), cfg, func(section, address string) { good = append(good, section+" "+address) })
			switch want := "upstream: " + test.address + ": " + test.want; {
			case test.want == "":
				if err != nil || fmt.Sprint(good) != "[upstream "+test.address+"]" {
					t.Errorf("%v, connected %v", err, good)
				}
			case err == nil || !strings.HasPrefix(err.Error(), want) || len(good) > 0:
				t.Errorf("got  %v\nwant %s…\nconnected %v", err, want, good)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{refused.Addr()}
	if err := relay.CheckConnections(ctx, cfg, nil); err == nil {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// serveNothing is a gRPC server that has no xDS.
func serveNothing(t *testing.T, opts ...grpc.ServerOption) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(opts...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return listener.Addr().String()
}
