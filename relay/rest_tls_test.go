package relay_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/xdstest"
)

// TestPollTLS: the port for clients that poll takes the certificates that its section
// says, and rules know who they are of.
func TestPollTLS(t *testing.T) {
	a, other := xdstest.NewAuthority(t, "a"), xdstest.NewAuthority(t, "other")
	dir := t.TempDir()
	writeResources(t, dir, "all.json", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Origin.Directory = dir
	cfg.Authorize = authorize.Any()
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
