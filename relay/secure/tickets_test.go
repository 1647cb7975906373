package secure_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
)

// oneTicket keeps the first ticket that a client gets, and offers it each time.
type oneTicket struct{ first *tls.ClientSessionState }

func (o *oneTicket) Get(string) (*tls.ClientSessionState, bool) { return o.first, o.first != nil }

func (o *oneTicket) Put(_ string, s *tls.ClientSessionState) {
	if o.first == nil {
		o.first = s
	}
}

// ticketServer is a server by one of its two ways in.
type ticketServer struct {
	*secure.Server
	config *tls.Config // of an HTTP server; nil for the handshake of gRPC
}

// waysIn tests a rule for both ways in and both versions of TLS.
func waysIn(t *testing.T, test func(t *testing.T, http bool, version uint16)) {
	t.Helper()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, http := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, http=%v", tls.VersionName(version), http), func(t *testing.T) {
				test(t, http, version)
			})
		}
	}
}

func newTicketServer(t *testing.T, cfg secure.Config, http bool) ticketServer {
	t.Helper()
	cfg.MinVersion = tls.VersionTLS12
	server, err := secure.NewServer(cfg, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	s := ticketServer{Server: server}
	if http {
		s.config = server.Config("h2")
	}
	return s
}

// caller is a client with a ticket cache of its own.
func caller(version uint16, takes, of *xdstest.Authority, cache tls.ClientSessionCache, sans ...string) *tls.Config {
	cfg := takes.ClientTLS(of, sans...)
	cfg.MaxVersion, cfg.ClientSessionCache = version, cache
	return cfg
}

// pipe is a connection with room for what the other side has not read: in a handshake with tickets
// both sides may write at once.
func pipe(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l := bufconn.Listen(64 << 10)
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept() // nil if Dial has failed
		accepted <- c
	}()
	client, err := l.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client, <-accepted
}

// pairFor is a client certificate that expires after a time.
func pairFor(t *testing.T, a *xdstest.Authority, life time.Duration) tls.Certificate {
	t.Helper()
	return xdstest.PairOf(t, []string{"web"}, func(hosts ...string) (cert, key []byte) {
		return a.IssueUntil(time.Now().Add(life), hosts...)
	})
}

// call shakes hands with a server, and returns what the server knows of the client.
func call(t *testing.T, s ticketServer, cfg *tls.Config) (state tls.ConnectionState, recheck func() error, err error) {
	t.Helper()
	a, b := pipe(t)
	defer a.Close()
	defer b.Close()
	cfg = cfg.Clone()
	cfg.NextProtos, cfg.ServerName = []string{"h2"}, "server.test"
	client := tls.Client(a, cfg)
	done := make(chan error, 1)
	go func() {
		_, err := client.Read(make([]byte, 1)) // with it comes the ticket of TLS 1.3
		done <- err
	}()
	var conn net.Conn
	if s.config == nil {
		c, info, again, failed := s.Handshake(b)
		if conn, recheck, err = c, again, failed; err == nil {
			state = info.State
		}
	} else {
		c := tls.Server(b, s.config)
		conn, err = c, c.Handshake()
		state = c.ConnectionState()
	}
	if err == nil {
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	} else {
		_ = b.Close()
	}
	if got := <-done; (got == nil) != (err == nil) {
		t.Fatalf("the server says %v, the client %v", err, got)
	}
	return state, recheck, err
}

// mustCall is call for a client that is let in, with a ticket or without.
func mustCall(t *testing.T, s ticketServer, cfg *tls.Config, resumed bool) (state tls.ConnectionState, recheck func() error) {
	t.Helper()
	state, recheck, err := call(t, s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if state.DidResume != resumed {
		t.Errorf("resumed: %v, expected %v", state.DidResume, resumed)
	}
	return state, recheck
}

// TestTicket: a client that returns resumes its session, the relay knows its verified identity as
// before, and it is still subject to what changes later.
func TestTicket(t *testing.T) {
	one, next := xdstest.NewAuthority(t, "one"), xdstest.NewAuthority(t, "next")
	web := xdstest.NewAuthority(t, "web")
	node := newSide(t, web, "server.test")
	bundle := filepath.Join(t.TempDir(), "one.json")
	node.Bundles = map[string]string{"one.test": bundle}
	waysIn(t, func(t *testing.T, http bool, version uint16) {
		write(t, bundle, bundleOf(t, "one.test", one))
		s := newTicketServer(t, node.Config, http)
		client := caller(version, web, one, tls.NewLRUClientSessionCache(1), "spiffe://one.test/a")
		first, last := mustCall(t, s, client, false)
		for range 2 { // the second ticket is that of a resumed session
			again, recheck := mustCall(t, s, client, true)
			if again.Version != version || len(again.VerifiedChains) == 0 || len(again.VerifiedChains[0]) != len(first.VerifiedChains[0]) ||
				!again.PeerCertificates[0].Equal(first.PeerCertificates[0]) || again.PeerCertificates[0].URIs[0].String() != "spiffe://one.test/a" {
				t.Fatalf("the relay knows of the resumed client %v", again.VerifiedChains)
			}
			last = recheck
		}
		if http {
			return // each request is looked at there; see StillTrusted
		}
		if err := last(); err != nil {
			t.Errorf("while nothing has changed: %v", err)
		}
		write(t, bundle, bundleOf(t, "one.test", next))
		if err := last(); err == nil {
			t.Error("a resumed client stays although its authority was withdrawn")
		}
	})
}

// TestTicketOfFormerTrust: a ticket does not let in a client that is not trusted any more, also where
// its authority still speaks for other clients; and other authorities make all tickets void.
func TestTicketOfFormerTrust(t *testing.T) {
	one, two, web := xdstest.NewAuthority(t, "one"), xdstest.NewAuthority(t, "two"), xdstest.NewAuthority(t, "web")
	node := newSide(t, web, "server.test")
	dir := t.TempDir()
	node.Bundles = map[string]string{"one.test": filepath.Join(dir, "one.json"), "two.test": filepath.Join(dir, "two.json")}
	before := func(t *testing.T) {
		write(t, node.CAFile, string(web.PEM))
		write(t, node.Bundles["one.test"], bundleOf(t, "one.test", one))
		write(t, node.Bundles["two.test"], bundleOf(t, "two.test", one, two))
	}
	for _, tc := range []struct {
		name   string
		change func(t *testing.T)
		of     *xdstest.Authority
		san    string
		good   bool
	}{
		{"its authority is withdrawn", func(t *testing.T) { write(t, node.CAFile, string(two.PEM)) }, web, "a.web.test", false},
		{"its bundle has no authority", func(t *testing.T) { write(t, node.Bundles["one.test"], `{"keys": []}`) }, one, "spiffe://one.test/a", false},
		{"its bundle has another authority", func(t *testing.T) { write(t, node.Bundles["one.test"], bundleOf(t, "one.test", two)) }, one, "spiffe://one.test/a", false},
		{"another bundle has changed", func(t *testing.T) { write(t, node.Bundles["two.test"], bundleOf(t, "two.test", one)) }, one, "spiffe://one.test/a", true},
		{"there is a further authority", func(t *testing.T) { write(t, node.CAFile, string(web.PEM)+string(two.PEM)) }, web, "a.web.test", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			waysIn(t, func(t *testing.T, http bool, version uint16) {
				before(t)
				s := newTicketServer(t, node.Config, http)
				client := caller(version, web, tc.of, tls.NewLRUClientSessionCache(1), tc.san)
				mustCall(t, s, client, false)
				mustCall(t, s, client, true)
				tc.change(t)
				if !tc.good {
					if _, _, err := call(t, s, client); err == nil {
						t.Error("it is let in")
					}
					return
				}
				mustCall(t, s, client, false)
				mustCall(t, s, client, true)
			})
		})
	}
}

// TestTicketOfExpired: a ticket is good no longer than the certificate that the client has shown. A
// client that has renewed it is known by the old one until then, and then by the new one.
func TestTicketOfExpired(t *testing.T) {
	waysIn(t, func(t *testing.T, http bool, version uint16) {
		synctest.Test(t, func(t *testing.T) {
			a := xdstest.NewAuthority(t, "a")
			s := newTicketServer(t, newSide(t, a, "server.test").Config, http)
			client := caller(version, a, nil, tls.NewLRUClientSessionCache(1))
			client.Certificates = []tls.Certificate{pairFor(t, a, time.Hour)}
			old, _ := mustCall(t, s, client, false)
			renewed := client.Clone()
			renewed.Certificates = []tls.Certificate{pairFor(t, a, 3*time.Hour)}
			if got, _ := mustCall(t, s, renewed, true); !got.PeerCertificates[0].Equal(old.PeerCertificates[0]) {
				t.Error("a resumed client has another certificate than it has shown")
			}
			time.Sleep(2 * time.Hour) //nolint:forbidigo // virtual time
			if _, _, err := call(t, s, client); err == nil {
				t.Error("a client whose certificate has expired is let in")
			}
			if got, _ := mustCall(t, s, renewed, false); got.PeerCertificates[0].Equal(old.PeerCertificates[0]) {
				t.Error("a client has a certificate that has expired")
			}
		})
	})
}

// TestTicketOfOther: a ticket is good for one port of one process, whatever others ask of clients.
func TestTicketOfOther(t *testing.T) {
	a := xdstest.NewAuthority(t, "a")
	node := newSide(t, a, "server.test")
	with := func(mode secure.ClientAuth) secure.Config {
		cfg := node.Config
		cfg.ClientAuth = mode
		return cfg
	}
	modes := []secure.ClientAuth{secure.ClientAuthRequired, secure.ClientAuthOptional, secure.ClientAuthNone}
	for _, http := range []bool{false, true} {
		for _, from := range modes {
			for _, to := range modes {
				for version := uint16(tls.VersionTLS12); version <= tls.VersionTLS13; version++ {
					cache := new(oneTicket)
					client := caller(version, a, a, cache, "web")
					first := newTicketServer(t, with(from), http)
					mustCall(t, first, client, false)
					mustCall(t, first, client, true)
					mustCall(t, newTicketServer(t, with(to), http), client, false)
				}
			}
		}
	}
	nobody := caller(tls.VersionTLS13, a, nil, new(oneTicket))
	optional := newTicketServer(t, with(secure.ClientAuthOptional), false)
	mustCall(t, optional, nobody, false)
	if got, recheck := mustCall(t, optional, nobody, true); len(got.PeerCertificates) > 0 || recheck != nil {
		t.Error("a client that has shown nothing is known by a certificate")
	}
	if _, _, err := call(t, newTicketServer(t, with(secure.ClientAuthRequired), false), nobody); err == nil {
		t.Error("the ticket of a client without a certificate lets it in where one is required")
	}
}

// TestTicketAge: another certificate of the relay, or a new key for tickets, leaves the tickets of
// before good; within a week from its making, no key is left that decrypts them.
func TestTicketAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := xdstest.NewAuthority(t, "a")
		node := newSide(t, a, "server.test")
		certify := func() {
			cert, key := a.IssueUntil(time.Now().Add(30*24*time.Hour), "server.test")
			write(t, node.CertFile, string(cert))
			write(t, node.KeyFile, string(key))
		}
		certify()
		node.ClientAuth = secure.ClientAuthOptional
		s := newTicketServer(t, node.Config, true)
		var clients []*tls.Config
		for day := range 8 {
			client := caller(tls.VersionTLS13, a, nil, new(oneTicket))
			client.InsecureSkipVerify = true // the authority's certificate ends after a day
			clients = append(clients, client)
			mustCall(t, s, client, false)
			certify()
			mustCall(t, s, client, true)
			for of := range day {
				mustCall(t, s, clients[of], of > day-7)
			}
			time.Sleep(24 * time.Hour) //nolint:forbidigo // virtual time
		}
	})
}

// TestResumedIsVerified: what a client has shown is verified for a resumed connection as well,
// whatever the library has seen to before.
func TestResumedIsVerified(t *testing.T) {
	a, other := xdstest.NewAuthority(t, "a"), xdstest.NewAuthority(t, "other")
	s := newTicketServer(t, newSide(t, a, "server.test").Config, true)
	cfg, err := s.config.GetConfigForClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		of    *xdstest.Authority
		until time.Duration
		good  bool
	}{{a, time.Hour, true}, {a, -time.Minute, false}, {other, time.Hour, false}} {
		pair := pairFor(t, tc.of, tc.until)
		err := cfg.VerifyConnection(tls.ConnectionState{DidResume: true, PeerCertificates: []*x509.Certificate{pair.Leaf}})
		if (err == nil) != tc.good {
			t.Errorf("a client of %s, until %s: %v", tc.of.Certificate().Subject, tc.until, err)
		}
	}
}

// TestOneConfig: connections share one configuration until the files change.
func TestOneConfig(t *testing.T) {
	a := xdstest.NewAuthority(t, "a")
	node := newSide(t, a, "server.test")
	s := newTicketServer(t, node.Config, true)
	get := func() *tls.Config {
		cfg, err := s.config.GetConfigForClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	first := get()
	if get() != first {
		t.Error("there are two configurations for the same files")
	}
	node.rotate(a, "server.test")
	next := get()
	if next == first || bytes.Equal(next.Certificates[0].Certificate[0], first.Certificates[0].Certificate[0]) {
		t.Error("a new connection has the old certificate")
	}
	if get() != next {
		t.Error("there are two configurations for the new files")
	}
}
