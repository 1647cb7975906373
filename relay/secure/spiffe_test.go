package secure_test

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
)

// bundleOf is the file of a trust domain with some authorities.
func bundleOf(t *testing.T, domain string, of ...*xdstest.Authority) string {
	t.Helper()
	b := spiffebundle.New(spiffeid.RequireTrustDomainFromString(domain))
	for _, a := range of {
		b.AddX509Authority(a.Certificate())
	}
	content, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// meeting is a handshake of both sides.
type meeting struct {
	client, server net.Conn
	recheck        func() error
	err            error // of the server
}

// meet shakes hands by the server's side, with a client that does whatever cfg says.
func meet(t *testing.T, s *secure.Server, cfg *tls.Config) (m meeting) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	cfg = cfg.Clone()
	cfg.NextProtos, cfg.ServerName = []string{"h2"}, "server.test"
	c := tls.Client(a, cfg)
	done := make(chan error, 1)
	go func() {
		err := c.Handshake()
		if err == nil {
			_, err = c.Read(make([]byte, 1)) // what the server thinks of it comes after
		}
		done <- err
	}()
	m.server, _, m.recheck, m.err = s.Handshake(b)
	if m.err == nil {
		if _, err := m.server.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	} else {
		_ = b.Close()
	}
	if err := <-done; (err == nil) != (m.err == nil) {
		t.Fatalf("the server says %v, the client %v", m.err, err)
	}
	m.client = c
	return m
}

// TestBundles: for a SPIFFE id only the bundle of its trust domain speaks, and an
// authority of the file for no id at all. What was taken is not any more once its
// bundle changes, and connections that stand go on.
func TestBundles(t *testing.T) {
	one, two, web := xdstest.NewAuthority(t, "one"), xdstest.NewAuthority(t, "two"), xdstest.NewAuthority(t, "web")
	node := newSide(t, web, "server.test")
	dir := t.TempDir()
	node.Bundles = map[string]string{"one.test": filepath.Join(dir, "one.json"), "two.test": filepath.Join(dir, "two.json")}
	write(t, node.Bundles["one.test"], bundleOf(t, "one.test", one))
	write(t, node.Bundles["two.test"], bundleOf(t, "two.test", two))
	server, err := secure.NewServer(node.Config, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		of   *xdstest.Authority
		sans []string
		good bool
	}{
		{"its own domain", one, []string{"spiffe://one.test/a"}, true},
		{"a federated domain", two, []string{"spiffe://two.test/a"}, true},
		{"another domain's id", two, []string{"spiffe://one.test/a"}, false},
		{"an id of no bundle", one, []string{"spiffe://three.test/a"}, false},
		{"an id by an authority of the file", web, []string{"spiffe://one.test/a"}, false},
		{"an id of no bundle by an authority of the file", web, []string{"spiffe://three.test/a"}, false},
		{"an id in a form of its own", web, []string{"SPIFFE://one.test/a"}, false},
		{"two ids", one, []string{"spiffe://one.test/a", "spiffe://one.test/b"}, false},
		{"an id and another URI", one, []string{"spiffe://one.test/a", "urn:a"}, false},
		{"no id", one, []string{"a.one.test"}, false},
		{"no id by an authority of the file", web, []string{"a.one.test"}, true},
	} {
		m := meet(t, server, web.ClientTLS(tc.of, tc.sans...))
		if (m.err == nil) != tc.good {
			t.Errorf("%s: %v", tc.name, m.err)
		}
	}

	m, before := meet(t, server, web.ClientTLS(two, "spiffe://two.test/a")), server.Generation()
	other := meet(t, server, web.ClientTLS(one, "spiffe://one.test/a"))
	if err := m.recheck(); err != nil {
		t.Fatal(err)
	}
	write(t, node.Bundles["two.test"], `{"keys": []}`)
	if server.Generation() == before {
		t.Error("nothing tells that the trust has changed")
	}
	if err := m.recheck(); err == nil {
		t.Error("what was taken is good without its authority")
	}
	if err := other.recheck(); err != nil {
		t.Errorf("another domain: %v", err)
	}
	if err := meet(t, server, web.ClientTLS(two, "spiffe://two.test/a")).err; err == nil {
		t.Error("the domain's ids are taken without an authority")
	}
	go func() { _, _ = m.server.Write([]byte("x")) }()
	if _, err := m.client.Read(make([]byte, 1)); err != nil {
		t.Errorf("the connection is gone: %v", err)
	}
	after := server.Generation()
	node.rotate(web, "server.test") // a new certificate of the same authority
	if server.Generation() != after {
		t.Error("a new certificate of this side counts as other trust")
	}
}

// TestExpiry: what a client has shown is good until it ends.
func TestExpiry(t *testing.T) {
	a := xdstest.NewAuthority(t, "a")
	node := newSide(t, a, "server.test")
	server, err := secure.NewServer(node.Config, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	pair := xdstest.PairOf(t, []string{"web"}, func(hosts ...string) (cert, key []byte) {
		return a.IssueUntil(time.Now().Add(2*time.Second), hosts...)
	})
	cfg := a.ClientTLS(nil)
	cfg.Certificates = []tls.Certificate{pair}
	m := meet(t, server, cfg)
	if m.err != nil {
		t.Fatal(m.err)
	}
	if err := m.recheck(); err != nil {
		t.Errorf("while it is good: %v", err)
	}
	xdstest.Eventually(t, "the certificate has ended", func() bool { return m.recheck() != nil })
}

// TestWorkloadAPI: certificates and bundles of both sides come from a Workload API,
// also while they change; what it said last stays while it is away.
func TestWorkloadAPI(t *testing.T) {
	old, next, friend := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next"), xdstest.NewAuthority(t, "friend")
	api, log := xdstest.NewWorkloadAPI(t), new(logs)
	api.Set("spiffe://corp.test/relay", old, map[string]*xdstest.Authority{"friend.test": friend})
	w, err := secure.DialWorkload(api.Address(), log.logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	server, err := secure.NewServer(secure.Config{Workload: w}, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	client, err := secure.NewClient(secure.Config{Workload: w, PeerIDs: []string{"spiffe://corp.test/relay"}}, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := secure.NewClient(secure.Config{Workload: w, PeerIDs: []string{"spiffe://corp.test/control-plane"}}, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	address := echo(t, server)
	first, err := dial(t, client, address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, wrong, address); err == nil {
		t.Error("a server of another id is taken")
	}
	alien := meetable(friend, "spiffe://friend.test/a")
	m := meet(t, server, alien)
	if m.err != nil {
		t.Fatalf("a federated client: %v", m.err)
	}

	api.Set("spiffe://corp.test/relay", next, nil)
	xdstest.Eventually(t, "the new certificate is shown", func() bool {
		c, err := dial(t, client, address)
		return err == nil && c.(*tls.Conn).ConnectionState().PeerCertificates[0].Issuer.CommonName == "next"
	})
	if err := says(first, "still here"); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	if err := m.recheck(); err == nil {
		t.Error("a client whose domain is federated no more is still trusted")
	}
	if err := meet(t, server, alien).err; err == nil {
		t.Error("a client whose domain is federated no more gets in")
	}
	if err := meet(t, server, meetable(old, "spiffe://corp.test/a")).err; err == nil {
		t.Error("an authority that was taken back lets clients in")
	}

	api.Stop()
	xdstest.Eventually(t, "it is told that the API is away", func() bool { return log.lines("does not answer") == 1 })
	if _, err := dial(t, client, address); err != nil {
		t.Errorf("while the API is away: %v", err)
	}
	api.Start()
	xdstest.Eventually(t, "it is told that the API is back", func() bool { return log.lines("answers again") == 1 })
}

// meetable is a client that takes any server.
func meetable(a *xdstest.Authority, id string) *tls.Config {
	cfg := a.ClientTLS(a, id)
	cfg.InsecureSkipVerify = true
	return cfg
}

// TestWorkloadRefused: what can never give a certificate is an error at the start.
func TestWorkloadRefused(t *testing.T) {
	if _, err := secure.DialWorkload("/no/scheme", new(logs).logger()); err == nil || !strings.Contains(err.Error(), "/no/scheme") {
		t.Error(err)
	}
	if _, err := secure.NewClient(secure.Config{Bundles: map[string]string{"a.test": "x"}}, new(logs).logger()); err == nil {
		t.Error("a client takes any workload of a domain")
	}
}

// TestIDs: an id is meant as a whole, and /* means what is below it, not what begins like
// it.
func TestIDs(t *testing.T) {
	one, web := xdstest.NewAuthority(t, "one"), xdstest.NewAuthority(t, "web")
	node := newSide(t, web, "server.test")
	node.CAFile = ""
	node.Bundles = map[string]string{"one.test": tempFile(t, bundleOf(t, "one.test", one))}
	node.PeerIDs = []string{"spiffe://one.test/ns/web/*", "spiffe://one.test/db"}
	server, err := secure.NewServer(node.Config, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	for id, good := range map[string]bool{
		"spiffe://one.test/ns/web/a":   true,
		"spiffe://one.test/ns/web/a/b": true,
		"spiffe://one.test/ns/web":     false,
		"spiffe://one.test/ns/webs":    false,
		"spiffe://one.test/ns/webs/a":  false,
		"spiffe://one.test/ns":         false,
		"spiffe://one.test/db":         true,
		"spiffe://one.test/db/a":       false,
		"spiffe://one.test/dbs":        false,
		"a.one.test":                   false,
	} {
		if m := meet(t, server, web.ClientTLS(one, id)); (m.err == nil) != good {
			t.Errorf("%s: %v", id, m.err)
		}
	}
}
