package secure_test

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/events"
	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
)

// TestHandshakeFailuresNameTheSide: where a handshake fails, both sides name whose
// certificate or what else it was about, and why.
func TestHandshakeFailuresNameTheSide(t *testing.T) {
	mesh, other := xdstest.NewAuthority(t, "mesh"), xdstest.NewAuthority(t, "other")
	for _, tc := range []struct {
		name                 string
		server, client       func(*side)
		word, atServer, atUs string // of the server's metric, and parts of what both sides say
	}{
		{name: "client certificate expired", client: func(s *side) { s.expire(t, mesh, "web") },
			word: "expired", atServer: "the client certificate has expired", atUs: "the server rejected this side's client certificate: it has expired"},
		{name: "client certificate of another authority", client: func(s *side) { ca := s.CAFile; s.rotate(other, "web"); s.keep(t, ca, mesh) },
			word: "no_certificate", atServer: "no certificate from an authority that is trusted here", atUs: "client certificate: it is required there, and none from an authority that is trusted there"},
		{name: "no client certificate", client: func(s *side) { s.CertFile, s.KeyFile = "", "" },
			word: "no_certificate", atServer: "the client sent no certificate", atUs: "client certificate: it is required there"},
		{name: "server certificate expired", server: func(s *side) { s.expire(t, mesh, "127.0.0.1") },
			word: "server_certificate", atServer: "the client rejected this side's server certificate", atUs: "the server certificate has expired"},
		{name: "server certificate of another authority", server: func(s *side) { ca := s.CAFile; s.rotate(other, "127.0.0.1"); s.keep(t, ca, mesh) },
			word: "server_certificate", atServer: "the client rejected this side's server certificate", atUs: "the server certificate is from an authority that is not trusted here"},
		{name: "server certificate for another name", server: func(s *side) { s.rotate(mesh, "10.9.9.9") },
			word: "server_certificate", atServer: "the client rejected this side's server certificate", atUs: "the server certificate is for another name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			serving, dialing := newSide(t, mesh, "127.0.0.1"), newSide(t, mesh, "web")
			if tc.server != nil {
				tc.server(serving)
			}
			if tc.client != nil {
				tc.client(dialing)
			}
			server, err := secure.NewServer(serving.Config, new(logs).logger())
			if err != nil {
				t.Fatal(err)
			}
			client, err := secure.NewClient(dialing.Config, new(logs).logger())
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			failed := make(chan error, 1)
			go func() {
				raw, err := l.Accept()
				if err == nil {
					_, _, err = server.Credentials(nil).ServerHandshake(raw)
				}
				failed <- err
			}()
			raw, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			conn, _, err := client.Credentials().ClientHandshake(t.Context(), "127.0.0.1", raw)
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			if err == nil || !strings.Contains(err.Error(), tc.atUs) {
				t.Errorf("the client says %v, expected %q", err, tc.atUs)
			}
			err = <-failed
			if err == nil {
				t.Fatal("the server let it in")
			}
			if word, hint := secure.Why(err); word != tc.word || !strings.Contains(hint, tc.atServer) {
				t.Errorf("the server says %q, %q of %v, expected %q, %q", word, hint, err, tc.word, tc.atServer)
			}
		})
	}
	t.Run("a client that shows a certificate of another authority all the same", func(t *testing.T) {
		server, err := secure.NewServer(newSide(t, mesh, "127.0.0.1").Config, new(logs).logger())
		if err != nil {
			t.Fatal(err)
		}
		at, from := net.Pipe()
		go func() {
			_ = tls.Client(from, named(mesh.ClientTLS(other, "web"))).HandshakeContext(t.Context())
			_ = from.Close()
		}()
		_, _, err = server.Credentials(nil).ServerHandshake(at)
		if err == nil {
			t.Fatal("the server let it in")
		}
		if word, hint := secure.Why(err); word != "unknown_authority" || !strings.Contains(hint, "the client certificate is from an authority that is not trusted here") {
			t.Errorf("the server says %q, %q of %v", word, hint, err)
		}
	})
	t.Run("version", func(t *testing.T) {
		serving := newSide(t, mesh, "127.0.0.1")
		serving.MinVersion = tls.VersionTLS12
		old := echoOf(t, serving, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12; c.GetConfigForClient = nil })
		client, err := secure.NewClient(newSide(t, mesh, "web").Config, new(logs).logger())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Dial(t.Context(), "tcp", old); err == nil || !strings.Contains(err.Error(), "the server supports only an older version of TLS") {
			t.Errorf("%v", err)
		}
	})
}

// named is for a server of that address.
func named(c *tls.Config) *tls.Config {
	c.ServerName = "127.0.0.1"
	return c
}

// expire makes the certificate one that has ended.
func (s *side) expire(t *testing.T, a *xdstest.Authority, host string) {
	t.Helper()
	cert, key := a.IssueUntil(time.Now().Add(-time.Minute), host)
	write(t, s.CertFile, string(cert))
	write(t, s.KeyFile, string(key))
}

// keep writes the certificate of an authority into a file.
func (s *side) keep(t *testing.T, file string, a *xdstest.Authority) {
	t.Helper()
	write(t, file, string(a.PEM))
}

// echoOf listens with the certificate of a side and a configuration that is changed.
func echoOf(t *testing.T, s *side, change func(*tls.Config)) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}}
	change(cfg)
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake() // the client ends it
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// TestCertificatesAreLogged: what is loaded, and loaded again, is in the log with its
// subject, names and end, and never the key.
func TestCertificatesAreLogged(t *testing.T) {
	mesh, next := xdstest.NewAuthority(t, "mesh"), xdstest.NewAuthority(t, "next")
	node, log := newSide(t, mesh, "127.0.0.1", "relay.example", "spiffe://corp/relay"), new(logs)
	server, err := secure.NewServer(node.Config, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	if log.lines("certificate loaded") != 1 || !strings.Contains(log.String(), "spiffe://corp/relay relay.example 127.0.0.1") || !strings.Contains(log.String(), "not_after=") {
		t.Errorf("log:\n%s", log)
	}
	server.Generation()
	node.rotate(next, "127.0.0.1", "other.example")
	server.Generation()
	if log.lines("certificate reloaded") != 1 || log.lines("trusted authorities reloaded") != 1 || !strings.Contains(log.String(), "other.example") {
		t.Errorf("log:\n%s", log)
	}
	if log.lines("event="+string(events.CertificateReloaded)) != 1 || log.lines("event="+string(events.TrustReloaded)) != 1 {
		t.Errorf("events:\n%s", log)
	}
	server.Generation()
	if n := log.lines("loaded"); n != 3 || log.lines("PRIVATE") > 0 {
		t.Errorf("%d lines:\n%s", n, log)
	}
}
