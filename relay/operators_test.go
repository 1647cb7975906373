package relay_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"xdsrelay/relay/xdstest"
)

// operatorPort is an admin port with TLS, as somebody sees it.
type operatorPort struct {
	t   *testing.T
	url string
	ca  *x509.CertPool
}

// get asks for a page, with a token and a certificate where they are given. It
// returns 0 where the handshake fails.
func (p operatorPort) get(path, token string, certs ...tls.Certificate) int {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: p.ca, Certificates: certs, MinVersion: tls.VersionTLS12}}}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode
}

func replaceFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestAdminPort: with TLS, a token and certificates the admin port lets in who has
// all of them, also after each has been exchanged, and nobody else.
func TestAdminPort(t *testing.T) {
	dir := t.TempDir()
	authority, stranger := xdstest.NewAuthority(t, "operators"), xdstest.NewAuthority(t, "strangers")
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	a := &cfg.Admin
	a.TLS.CertFile, a.TLS.KeyFile, a.TLS.CAFile = authority.WriteFiles(dir, "127.0.0.1")
	a.TokenFile, a.ReadTokenFile, a.RolloutTokenFile = filepath.Join(dir, "token"), filepath.Join(dir, "read-token"), filepath.Join(dir, "rollout-token")
	replaceFile(t, a.TokenFile, "operator-0123456789")
	replaceFile(t, a.ReadTokenFile, "reader-0123456789")
	replaceFile(t, a.RolloutTokenFile, "releaser-0123456789")
	n := start(t, cfg)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM)
	p := operatorPort{t, "https://" + n.AdminAddr(), pool}
	certOf := func(a *xdstest.Authority) tls.Certificate {
		cert, err := tls.X509KeyPair(a.Issue("alice"))
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	alice := certOf(authority)

	for _, tc := range []struct {
		name, path, token string
		certs             []tls.Certificate
		want              int
	}{
		{"both", "/debug/keys", "operator-0123456789", []tls.Certificate{alice}, 200},
		{"a reader", "/debug/keys", "reader-0123456789", []tls.Certificate{alice}, 200},
		{"who releases revisions", "/debug/keys", "releaser-0123456789", []tls.Certificate{alice}, 200},
		{"the profile of one", "/debug/pprof/cmdline", "releaser-0123456789", []tls.Certificate{alice}, 403},
		{"a reader's profile", "/debug/pprof/cmdline", "reader-0123456789", []tls.Certificate{alice}, 403},
		{"an operator's profile", "/debug/pprof/cmdline", "operator-0123456789", []tls.Certificate{alice}, 200},
		{"no token", "/debug/keys", "", []tls.Certificate{alice}, 401},
		{"a wrong token", "/debug/keys", "operator-0123456780", []tls.Certificate{alice}, 401},
		{"no certificate", "/debug/keys", "operator-0123456789", nil, 0},
		{"no certificate, for health", "/healthz", "", nil, 0},
		{"a stranger's certificate", "/debug/keys", "operator-0123456789", []tls.Certificate{certOf(stranger)}, 0},
		{"health", "/healthz", "", []tls.Certificate{alice}, 200},
	} {
		if got := p.get(tc.path, tc.token, tc.certs...); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	if code, _ := n.get(t, "/debug/keys"); code != http.StatusBadRequest {
		t.Errorf("without TLS: %d", code)
	}

	replaceFile(t, a.TokenFile, "operator-new-0123456789")
	xdstest.Eventually(t, "the new token is good", func() bool { return p.get("/debug/keys", "operator-new-0123456789", alice) == 200 })
	if got := p.get("/debug/keys", "operator-0123456789", alice); got != 401 {
		t.Errorf("the old token: %d", got)
	}
	after := xdstest.NewAuthority(t, "new")
	after.WriteFiles(dir, "127.0.0.1")
	p.ca.AppendCertsFromPEM(after.PEM)
	bob := certOf(after)
	xdstest.Eventually(t, "the new authority is good", func() bool { return p.get("/debug/keys", "operator-new-0123456789", bob) == 200 })
	if got := p.get("/debug/keys", "operator-new-0123456789", alice); got != 0 {
		t.Errorf("a certificate of the old authority: %d", got)
	}
}
