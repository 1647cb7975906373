package relay_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/xdstest"
)

// TestPollTLS: the port for clients that poll takes the certificates that its section
// says, and rules know who they are of.
func TestPollTLS(t *testing.T) {
	a, other := xdstest.NewAuthority(t, "a"), xdstest.NewAuthority(t, "other")
	dir := t.TempDir()
	writeResources(t, dir, "all.json", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Directory = dir
	cfg.Authorization.AllowAny = true
	cfg.Aggregation.Rules = []aggregation.Rule{{Name: "by id", Match: "peer.spiffe_id == 'spiffe://corp/web' && peer.listener == 'rest'", Key: "node.cluster"}}
	l := tlsListener(t, t.TempDir(), a)
	cfg.REST.Address, cfg.REST.TLS = l.Address, l.TLS
	n := start(t, cfg)
	for _, tc := range []struct {
		name string
		tls  *tls.Config
		code int // 0 where there is none
	}{
		{"good", a.ClientTLS(a, "spiffe://corp/web"), http.StatusOK},
		{"another id", a.ClientTLS(a, "spiffe://corp/other"), http.StatusForbidden},
		{"another authority", a.ClientTLS(other, "spiffe://corp/web"), 0},
		{"no certificate", a.ClientTLS(nil), 0},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: tc.tls, DisableKeepAlives: true}}
		res, err := client.Post("https://"+n.RESTAddr()+"/v3/discovery:clusters", "application/json", strings.NewReader(`{"node": {"id": "n", "cluster": "shop"}}`))
		if err != nil {
			if tc.code != 0 {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != tc.code {
			t.Errorf("%s: %s, %s", tc.name, res.Status, body)
		}
	}
}

// TestKeptConnections: who polls or operates over a connection that is kept is asked
// again when authorities are withdrawn. Those of the others stay.
func TestKeptConnections(t *testing.T) {
	old, next := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next")
	dir := t.TempDir()
	writeResources(t, dir, "all.json", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Directory = dir
	cfg.Authorization.AllowAny = true
	l := tlsListener(t, t.TempDir(), old)
	cfg.REST.Address, cfg.REST.TLS, cfg.Admin.TLS = l.Address, l.TLS, l.TLS
	n := start(t, cfg)

	var dialled atomic.Int32
	ask := func(client *http.Client) (codes [2]int) {
		t.Helper()
		for i, send := range []func() (*http.Response, error){
			func() (*http.Response, error) { return client.Get("https://" + n.AdminAddr() + "/debug/keys") },
			func() (*http.Response, error) {
				return client.Post("https://"+n.RESTAddr()+"/v3/discovery:clusters", "application/json", strings.NewReader(`{"node": {"id": "n", "cluster": "shop"}}`))
			},
		} {
			res, err := send()
			if err != nil {
				continue // in the handshake
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			codes[i] = res.StatusCode
		}
		return codes
	}
	clients := make(map[*xdstest.Authority]*http.Client)
	for _, a := range []*xdstest.Authority{old, next} {
		if a == next {
			replace(t, l.TLS.CAFile, append(bytes.Clone(old.PEM), next.PEM...))
		}
		transport := &http.Transport{TLSClientConfig: old.ClientTLS(a, "web"), DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}
		t.Cleanup(transport.CloseIdleConnections)
		clients[a] = &http.Client{Transport: transport}
		xdstest.Eventually(t, "both ports to answer", func() bool { return ask(clients[a]) == [2]int{http.StatusOK, http.StatusOK} })
	}
	before := dialled.Load()
	replace(t, l.TLS.CAFile, next.PEM)
	if got := ask(clients[old]); got != [2]int{http.StatusForbidden, http.StatusUnauthorized} {
		t.Errorf("the client of the old authority is answered %v on its connections", got)
	}
	if got := ask(clients[next]); got != [2]int{http.StatusOK, http.StatusOK} || dialled.Load() != before {
		t.Errorf("the client of the new authority is answered %v, and there are %d new connections", got, dialled.Load()-before)
	}
	if got := ask(clients[old]); got != [2]int{} {
		t.Errorf("with a new connection the client of the old authority is answered %v", got)
	}
}
