package relay_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"xdsrelay/relay"
	"xdsrelay/relay/xdstest"
)

// TestHandshakesOfHTTPPorts: a handshake that fails on the ports for polls and for operators
// is logged and counted with the side and the reason, in the words of the port for gRPC.
func TestHandshakesOfHTTPPorts(t *testing.T) {
	a, other := xdstest.NewAuthority(t, "a"), xdstest.NewAuthority(t, "other")
	for reason, test := range map[string]struct {
		scheme string
		tls    *tls.Config
		hint   string
	}{
		"no_certificate":    {"https", a.ClientTLS(nil), "the client sent no certificate from an authority that is trusted here"},
		"unknown_authority": {"https", a.ClientTLS(other, "web"), "the client"},
		"plaintext":         {"http", nil, "the client does not use TLS"},
	} {
		t.Run(reason, func(t *testing.T) {
			var log lines
			cfg := testConfig()
			cfg.Upstream.Directory = t.TempDir()
			cfg.Authorization.AllowAny = true
			l := tlsListener(t, t.TempDir(), a)
			cfg.REST.Address, cfg.REST.TLS, cfg.Admin.TLS = l.Address, l.TLS, l.TLS
			n := startWith(t, cfg, relay.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for listener, address := range map[string]string{"rest": n.RESTAddr(), "admin": n.AdminAddr()} {
				client := &http.Client{Transport: &http.Transport{TLSClientConfig: test.tls, DisableKeepAlives: true}}
				res, err := client.Get(test.scheme + "://" + address + "/")
				if err == nil {
					_ = res.Body.Close()
					if test.tls != nil {
						t.Errorf("%s: %s, expected a handshake that fails", listener, res.Status)
					}
				}
				line := fmt.Sprintf("listener=%s", listener)
				xdstest.Eventually(t, "a line about the handshake on the port "+listener, func() bool { return log.count(line) == 1 })
			}
			for _, part := range []string{"reason=" + reason, test.hint} {
				if got := log.count(part); got < 2 {
					t.Errorf("%q is in %d lines, expected two", part, got)
				}
			}
		})
	}
}
