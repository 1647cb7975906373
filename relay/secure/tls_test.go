package secure_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
)

// side is the files of one side of a connection.
type side struct {
	secure.Config
	dir string
}

func newSide(t *testing.T, a *xdstest.Authority, hosts ...string) *side {
	s := &side{dir: t.TempDir()}
	s.rotate(a, hosts...)
	return s
}

func (s *side) rotate(a *xdstest.Authority, hosts ...string) {
	s.CertFile, s.KeyFile, s.CAFile = a.WriteFiles(s.dir, hosts...)
}

// echo serves what it is sent on loopback, over TLS.
func echo(t *testing.T, s *secure.Server) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", s.Config())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// says reports whether the other side answers on c.
func says(c net.Conn, text string) error {
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len(text)))
	return err
}

// dial connects and says something, since only the answer tells a client that it
// was let in.
func dial(t *testing.T, c *secure.Client, address string) (net.Conn, error) {
	t.Helper()
	conn, err := c.Dial(t.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, says(conn, "hello")
}

// TestRotation: both sides take new certificates, keys and authorities with the
// next handshake, and connections that stand go on.
func TestRotation(t *testing.T) {
	old, next := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next")
	node, peer := newSide(t, old, "127.0.0.1"), newSide(t, old, "peer")
	log := new(logs)
	server, err := secure.NewServer(node.Config, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	client, err := secure.NewClient(peer.Config, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	address := echo(t, server)
	first, err := dial(t, client, address)
	if err != nil {
		t.Fatal(err)
	}
	if v := first.(*tls.Conn).ConnectionState().Version; v != tls.VersionTLS13 {
		t.Errorf("speaks %s, expected TLS 1.3", tls.VersionName(v))
	}

	node.rotate(next, "127.0.0.1")
	if _, err := dial(t, client, address); err == nil {
		t.Error("a client of the old authority takes a server of the next one")
	}
	peer.rotate(next, "peer")
	second, err := dial(t, client, address)
	if err != nil {
		t.Fatalf("after both sides rotated: %v", err)
	}
	if got := second.(*tls.Conn).ConnectionState().PeerCertificates[0].Issuer.CommonName; got != "next" {
		t.Errorf("the server shows a certificate of %q", got)
	}
	if err := says(first, "still here"); err != nil {
		t.Errorf("a connection from before: %v", err)
	}

	// The server goes back, and so refuses the client.
	node.rotate(old, "127.0.0.1")
	if err := os.WriteFile(peer.CAFile, old.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, client, address); err == nil {
		t.Error("a server takes a client of an authority that it does not know any more")
	}
	if log.lines("level=INFO") != log.lines("level=") || log.lines("certificate reloaded") == 0 {
		t.Errorf("more or less was logged than certificates and authorities that were reloaded:\n%s", log)
	}
}

// TestHalfRotated: a certificate whose key has not come yet leaves the old pair.
func TestHalfRotated(t *testing.T) {
	a := xdstest.NewAuthority(t, "a")
	node, peer, log := newSide(t, a, "127.0.0.1"), newSide(t, a, "peer"), new(logs)
	server, err := secure.NewServer(node.Config, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	client, err := secure.NewClient(peer.Config, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	address := echo(t, server)
	cert, key := a.Issue("127.0.0.1", "new")
	write(t, node.CertFile, string(cert))
	for range 3 {
		if _, err := dial(t, client, address); err != nil {
			t.Fatalf("half way: %v", err)
		}
	}
	if n := log.lines("level=ERROR"); n != 1 || !strings.Contains(log.String(), node.CertFile) {
		t.Errorf("%d errors were logged, expected one that names the file:\n%s", n, log)
	}
	write(t, node.KeyFile, string(key))
	conn, err := dial(t, client, address)
	if err != nil {
		t.Fatal(err)
	}
	if names := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames; len(names) != 1 {
		t.Error("the server shows the old certificate after the new key came")
	}
}

// TestNoCertificate: a client without a certificate gets in only where none is
// asked for, and a name that is configured takes the place of the host.
func TestNoCertificate(t *testing.T) {
	a := xdstest.NewAuthority(t, "a")
	node := newSide(t, a, "node.test")
	bare := secure.Config{CAFile: node.CAFile, ServerName: "node.test"}
	client, err := secure.NewClient(bare, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	strict, err := secure.NewServer(node.Config, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, client, echo(t, strict)); err == nil {
		t.Error("a client without a certificate got in")
	}
	node.CAFile = ""
	open, err := secure.NewServer(node.Config, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	address := echo(t, open)
	if _, err := dial(t, client, address); err != nil {
		t.Error(err)
	}
	bare.ServerName = ""
	nameless, err := secure.NewClient(bare, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, nameless, address); err == nil {
		t.Error("the certificate is for another host, and was taken")
	}
}

// TestBadFiles: what cannot be used at the start is an error that names the file.
func TestBadFiles(t *testing.T) {
	a := xdstest.NewAuthority(t, "a")
	good, other := newSide(t, a, "x"), newSide(t, a, "x")
	junk := filepath.Join(t.TempDir(), "junk.pem")
	write(t, junk, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, tc := range []struct {
		files secure.Config
		names string
	}{
		{secure.Config{CertFile: missing, KeyFile: good.KeyFile}, missing},
		{secure.Config{CertFile: good.CertFile, KeyFile: missing}, missing},
		{secure.Config{CertFile: good.CertFile, KeyFile: other.KeyFile}, other.KeyFile},
		{secure.Config{CertFile: good.KeyFile, KeyFile: good.CertFile}, good.KeyFile},
		{secure.Config{CertFile: good.CertFile}, good.CertFile},
		{secure.Config{CAFile: missing}, missing},
		{secure.Config{CAFile: junk}, junk},
		{secure.Config{CAFile: good.KeyFile}, good.KeyFile},
	} {
		_, err := secure.NewClient(tc.files, new(logs).logger())
		if err == nil || !strings.Contains(err.Error(), tc.names) {
			t.Errorf("%+v: got %v, expected an error that names %s", tc.files, err, tc.names)
		}
		if tc.files.CertFile == "" {
			continue
		}
		if _, err := secure.NewServer(tc.files, new(logs).logger()); err == nil || !strings.Contains(err.Error(), tc.names) {
			t.Errorf("server, %+v: got %v, expected an error that names %s", tc.files, err, tc.names)
		}
	}
	if _, err := secure.NewServer(secure.Config{CAFile: good.CAFile}, new(logs).logger()); err == nil {
		t.Error("a server without a certificate")
	}
}

// TestCredentials: the same through gRPC, whose connections stand while files
// rotate, and whose new ones take the new files.
func TestCredentials(t *testing.T) {
	old, next := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next")
	node, peer := newSide(t, old, "127.0.0.1"), newSide(t, old, "peer")
	server, err := secure.NewServer(node.Config, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	client, err := secure.NewClient(peer.Config, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	creds := server.Credentials(nil)
	s := grpc.NewServer(grpc.Creds(creds))
	healthpb.RegisterHealthServer(s, health.NewServer())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })

	connect := func() *grpc.ClientConn {
		c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(client.Credentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	check := func(c *grpc.ClientConn) error {
		ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
		defer cancel()
		_, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	}
	first := connect()
	if err := check(first); err != nil {
		t.Fatal(err)
	}
	node.rotate(next, "127.0.0.1")
	if err := check(connect()); err == nil {
		t.Error("a client of the old authority takes a server of the next one")
	}
	peer.rotate(next, "peer")
	if err := check(connect()); err != nil {
		t.Errorf("after both sides rotated: %v", err)
	}
	if err := check(first); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	if ended := creds.EndUntrusted(); len(ended) != 1 {
		t.Errorf("connections from %v were closed, want one", ended)
	}
	if ended := creds.EndUntrusted(); len(ended) != 0 {
		t.Errorf("connections from %v were closed, too", ended)
	}
	xdstest.Eventually(t, "a new connection in its place", func() bool { return check(first) == nil })
}
