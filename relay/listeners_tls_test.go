package relay_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"xdsrelay/relay"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// tlsListener is a section of the configuration with certificates of an authority.
func tlsListener(t *testing.T, dir string, a *xdstest.Authority) config.Listener {
	t.Helper()
	l := config.DefaultListener()
	l.Address = "127.0.0.1:0"
	l.TLS.CertFile, l.TLS.KeyFile, l.TLS.CAFile = a.WriteFiles(dir, "127.0.0.1")
	return l
}

// health asks a node by a new connection with those credentials.
func health(t *testing.T, address string, creds credentials.TransportCredentials) error {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	_, err = healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

// TestClientTLS: a port with TLS accepts clients with valid certificates of its authority that use
// HTTP/2 over TLS 1.2 or newer, and no others. A port may be stricter, or not ask for certificates.
func TestClientTLS(t *testing.T) {
	mesh, other := xdstest.NewAuthority(t, "mesh"), xdstest.NewAuthority(t, "other")
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Listener = tlsListener(t, t.TempDir(), mesh)
	cfg.Authorization.AllowAny = true
	for name, change := range map[string]func(*config.ServerTLS){
		"optional": func(s *config.ServerTLS) { s.ClientAuth = config.ClientAuthOptional },
		"none":     func(s *config.ServerTLS) { s.ClientAuth = config.ClientAuthNone },
		"strict":   func(s *config.ServerTLS) { s.MinVersion = config.TLS13 },
	} {
		l := config.NamedListener{Name: name, Listener: tlsListener(t, t.TempDir(), mesh)}
		change(&l.TLS)
		cfg.Listeners = append(cfg.AllListeners(), l)
	}
	n := start(t, cfg)

	expired := mesh.ClientTLS(nil)
	late := xdstest.PairOf(t, []string{"web"}, func(hosts ...string) (cert, key []byte) {
		return mesh.IssueUntil(time.Now().Add(-time.Minute), hosts...)
	})
	expired.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &late, nil }
	old := mesh.ClientTLS(mesh, "web")
	old.MaxVersion = tls.VersionTLS12
	older := mesh.ClientTLS(mesh, "web")
	older.MinVersion, older.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	for _, tc := range []struct {
		name string
		tls  *tls.Config
		in   string // the listeners that let it in
	}{
		{"good", mesh.ClientTLS(mesh, "web"), "default optional none strict"},
		{"of another authority", mesh.ClientTLS(other, "web"), "none"},
		{"expired", expired, "none"},
		{"without a certificate", mesh.ClientTLS(nil), "optional none"},
		{"TLS 1.2", old, "default optional none"},
		{"TLS 1.1", older, ""},
	} {
		for _, l := range cfg.AllListeners() {
			err := health(t, n.ListenerAddr(l.Name), credentials.NewTLS(tc.tls))
			if want := strings.Contains(tc.in, l.Name); (err == nil) != want {
				t.Errorf("a client that is %s at listener %s: %v", tc.name, l.Name, err)
			}
		}
	}
	for name, protos := range map[string][]string{"HTTP/1.1": {"http/1.1"}, "nothing": nil} {
		c := mesh.ClientTLS(mesh, "web")
		c.NextProtos = protos
		conn, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", n.Addr())
		if err != nil {
			continue // told in the handshake
		}
		if err := conn.SetDeadline(time.Now().Add(xdstest.Patience)); err != nil {
			t.Fatal(err)
		}
		if k, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("a client that offers %s gets %d bytes, %v", name, k, err)
		}
		_ = conn.Close()
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(xdstest.Patience)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	k, err := conn.Read(buf)
	for err == nil {
		_, err = conn.Read(buf[k:])
	}
	if isTimeout(err) || k > 0 && buf[0] != 21 { // an alert of TLS
		t.Errorf("plaintext is answered by %q, %v", buf[:k], err)
	}
}

func isTimeout(err error) bool {
	timed, ok := err.(net.Error) //nolint:errorlint // as connections give it
	return ok && timed.Timeout()
}

// TestClientTLSRotation: a client is grouped by what its certificate proves. A new
// certificate of a port and an authority that is added end no stream, and count for the
// next handshake.
func TestClientTLSRotation(t *testing.T) {
	before, after := xdstest.NewAuthority(t, "before"), xdstest.NewAuthority(t, "after")
	origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	origin.Set("shop", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{origin.Addr()}
	cfg.Aggregation.Rules = []aggregation.Rule{{Name: "by id", Match: "peer.spiffe_id == 'spiffe://corp/web'", Key: "node.cluster"}}
	dir := t.TempDir()
	cfg.Listener = tlsListener(t, dir, before)
	cfg.Authorization.AllowAny = true
	n := start(t, cfg)
	join := func(a *xdstest.Authority, name string) *xdstest.Auto {
		c := xdstest.StartAuto(t, xdstest.AutoConfig{
			Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node(name, "shop"),
			DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(a.ClientTLS(a, "spiffe://corp/web")))},
		})
		c.Subscribe(xdstest.ClusterType)
		return c
	}
	first := join(before, "first")
	first.WaitHeld(t, xdstest.ClusterType, "a")

	// Both authorities from now on: a stream whose authority is not trusted any more
	// would end with the next look at the files (TestTrustWithdrawn).
	replace(t, cfg.Listener.TLS.CAFile, append(bytes.Clone(before.PEM), after.PEM...))
	cert, key := after.Issue("127.0.0.1")
	replace(t, cfg.Listener.TLS.CertFile, cert)
	replace(t, cfg.Listener.TLS.KeyFile, key)
	xdstest.Eventually(t, "the new authority counts", func() bool {
		return health(t, n.Addr(), credentials.NewTLS(after.ClientTLS(after, "x"))) == nil
	})
	second := join(after, "second")
	origin.Set("shop", xdstest.Cluster("b", time.Second))
	for _, c := range []*xdstest.Auto{first, second} {
		c.WaitHeld(t, xdstest.ClusterType, "a", "b")
		c.CheckViolations(t)
		if s := c.Stats(); s.Streams != 1 {
			t.Errorf("%s has had %d streams", c, s.Streams)
		}
	}
}

// TestTrustWithdrawn: a client stays while new certificates come, and goes when nobody
// trusts the authority of its own any more.
func TestTrustWithdrawn(t *testing.T) {
	t.Parallel()
	old, next := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next")
	dir, resources := t.TempDir(), t.TempDir()
	writeResources(t, resources, "all.json", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Directory = resources
	cfg.Authorization.AllowAny = true
	cfg.Listener = tlsListener(t, dir, old)
	n := start(t, cfg)
	clients := map[*xdstest.Authority]*xdstest.Auto{}
	for _, a := range []*xdstest.Authority{old, next} {
		if a == next {
			replace(t, cfg.Listener.TLS.CAFile, append(bytes.Clone(old.PEM), next.PEM...))
		}
		c := xdstest.StartAuto(t, xdstest.AutoConfig{
			Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node("c", "shop"),
			DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(old.ClientTLS(a, "web")))},
		})
		c.Subscribe(xdstest.ClusterType)
		c.WaitHeld(t, xdstest.ClusterType, "a")
		clients[a] = c
	}
	replace(t, cfg.Listener.TLS.CAFile, next.PEM)
	clients[old].WaitFor(t, "the client of the old authority to be sent away", func() bool { return clients[old].Stats().LastEnd != nil })
	if s := clients[next].Stats(); s.Streams != 1 || s.LastEnd != nil {
		t.Errorf("the client of the new authority had %d streams, %v", s.Streams, s.LastEnd)
	}
	for _, a := range []*xdstest.Authority{old, next} {
		if err := health(t, n.Addr(), credentials.NewTLS(old.ClientTLS(a, "web"))); (err == nil) != (a == next) {
			t.Errorf("a new connection of the client of the new authority: %t; %v", a == next, err)
		}
	}
}

// TestTrustChangesAtTheStart: authorities that change while the node starts are noticed, too: a client may
// have connected before.
func TestTrustChangesAtTheStart(t *testing.T) {
	t.Parallel()
	old, next := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next")
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Authorization.AllowAny = true
	cfg.Listener = tlsListener(t, t.TempDir(), old)
	var log lines
	logger, levels := relay.NewLogger(&log, cfg.Log)
	startWith(t, cfg, relay.Options{Logger: logger, Levels: levels, Serving: func() { replace(t, cfg.Listener.TLS.CAFile, next.PEM) }})
	xdstest.Eventually(t, "the change to be noticed", func() bool { return log.count("trusted authorities changed") == 1 })
}

// TestResumedClient: authorization rules apply to the certificate behind a resumed TLS session, and
// the stream ends when its authority is withdrawn; a ticket of before lets nobody in then.
func TestResumedClient(t *testing.T) {
	t.Parallel()
	old, next := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next")
	resources := t.TempDir()
	writeResources(t, resources, "all.json", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Directory = resources
	cfg.Authorization.Rules = []authorize.Rule{{Name: "own", Match: `peer.spiffe_id == "spiffe://mesh/" + node.cluster`}}
	cfg.Listener = tlsListener(t, t.TempDir(), old)
	n := start(t, cfg)
	var resumed atomic.Bool
	first := old.ClientTLS(old, "spiffe://mesh/shop")
	first.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	first.ServerName = "127.0.0.1"
	first.VerifyConnection = func(s tls.ConnectionState) error {
		resumed.Store(s.DidResume)
		return nil
	}
	connect := func(of *tls.Config) *xdstest.Auto {
		c := xdstest.StartAuto(t, xdstest.AutoConfig{
			Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node("c", "shop"),
			DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(of))},
		})
		c.Subscribe(xdstest.ClusterType)
		return c
	}
	connect(first).WaitHeld(t, xdstest.ClusterType, "a")
	if resumed.Load() {
		t.Error("the first connection is a resumed one")
	}
	again := first.Clone()
	other := xdstest.PairOf(t, []string{"spiffe://mesh/bank"}, old.Issue) // what it has shown counts, not what it has now
	again.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &other, nil }
	c := connect(again)
	c.WaitHeld(t, xdstest.ClusterType, "a")
	if !resumed.Load() {
		t.Error("the session was not resumed")
	}
	replace(t, cfg.Listener.TLS.CAFile, next.PEM)
	c.WaitFor(t, "the end of the resumed client's stream", func() bool { return c.Stats().LastEnd != nil })
	if err := health(t, n.Addr(), credentials.NewTLS(first)); err == nil {
		t.Error("a ticket lets in a client whose authority was withdrawn")
	}
}

// replace puts a new file in the place of another.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestUnixSocket: a port may be a Unix socket with permissions of its own. A file that
// is left of another is no obstacle; one that is used, or no socket, is.
func TestUnixSocket(t *testing.T) {
	dir := t.TempDir()
	writeResources(t, dir, "all.json", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Directory = dir
	path := filepath.Join(t.TempDir(), "xds.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Listener.Address, cfg.Listener.SocketMode = "unix:"+path, 0o600
	n := start(t, cfg)
	if n.Addr() != "unix:"+path {
		t.Errorf("it listens on %s", n.Addr())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	c := xdstest.StartAuto(t, xdstest.AutoConfig{
		Addr: path, Variant: xdstest.Delta, Node: xdstest.Node("c", "shop"),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		})},
	})
	c.Subscribe(xdstest.ClusterType)
	c.WaitHeld(t, xdstest.ClusterType, "a")

	second := testConfig()
	second.Upstream.Directory = dir
	file := filepath.Join(t.TempDir(), "file")
	replace(t, file, []byte("precious"))
	for address, want := range map[string]string{path: "another process listens", file: "is not a socket"} {
		second.Listener.Address = "unix:" + address
		if _, err := relay.New(second, relay.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	c.Close()
	n.stop()
	n.ended(t)
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket's file is left")
	}
}

// TestOriginTLS: a control plane is dialled over TLS with a certificate of this node,
// and has to be who it should be, by name or by SPIFFE id.
func TestOriginTLS(t *testing.T) {
	t.Parallel()
	a, other := xdstest.NewAuthority(t, "a"), xdstest.NewAuthority(t, "other")
	secured := &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	secured.ClientCAs.AddCert(a.Certificate())
	secured.Certificates = []tls.Certificate{xdstest.PairOf(t, []string{"127.0.0.1", "spiffe://corp/cp"}, a.Issue)}
	origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	if err := origin.Secure(secured); err != nil {
		t.Fatal(err)
	}
	origin.Set("shop", xdstest.Cluster("a", time.Second))
	for name, tc := range map[string]struct {
		change func(*config.UpstreamTLS)
		good   bool
	}{
		"by name":              {func(*config.UpstreamTLS) {}, true},
		"by SPIFFE id":         {func(o *config.UpstreamTLS) { o.SPIFFEIDs = []string{"spiffe://corp/cp"} }, true},
		"by trust domain":      {func(o *config.UpstreamTLS) { o.SPIFFEIDs = []string{"spiffe://corp/*"} }, true},
		"another name":         {func(o *config.UpstreamTLS) { o.ServerName = "cp.corp" }, false},
		"another id":           {func(o *config.UpstreamTLS) { o.SPIFFEIDs = []string{"spiffe://corp/other", "spiffe://corp/cp/*"} }, false},
		"another authority":    {func(o *config.UpstreamTLS) { _, _, o.CAFile = other.WriteFiles(t.TempDir(), "x") }, false},
		"no certificate":       {func(o *config.UpstreamTLS) { o.CertFile, o.KeyFile = "", "" }, false},
		"the system's":         {func(o *config.UpstreamTLS) { o.CAFile, o.Enabled = "", true }, false},
		"plaintext":            {func(o *config.UpstreamTLS) { *o = config.UpstreamTLS{} }, false},
		"one of the wrong one": {func(o *config.UpstreamTLS) { o.CertFile, o.KeyFile, _ = other.WriteFiles(t.TempDir(), "x") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Upstream.Addresses = []string{origin.Addr()}
			cfg.Upstream.TLS.CertFile, cfg.Upstream.TLS.KeyFile, cfg.Upstream.TLS.CAFile = a.WriteFiles(t.TempDir(), "relay")
			tc.change(&cfg.Upstream.TLS)
			cfg.Downstream.UpstreamTimeout = 100 * time.Millisecond
			n := start(t, cfg)
			c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node("c", "shop")})
			c.Subscribe(xdstest.ClusterType)
			if tc.good {
				c.WaitHeld(t, xdstest.ClusterType, "a")
				if _, text := n.get(t, "/metrics"); !strings.Contains(text, `xdsrelay_tls_certificate_not_after_timestamp_seconds{use="upstream"} `) ||
					!strings.Contains(text, `xdsrelay_tls_certificate_not_before_timestamp_seconds{use="upstream"} `) {
					t.Error("no metric tells how long the certificate of this node is good")
				}
				return
			}
			c.WaitFor(t, "the client to be told that there is no origin", func() bool { return c.Stats().LastEnd != nil })
			if held := c.Held(xdstest.ClusterType); len(held) > 0 {
				t.Errorf("it got %v", held)
			}
		})
	}
}

// TestConnectionAgeOverTLS: connections with TLS that grow old are exchanged for new
// ones while the origin goes on changing, and their clients lose nothing by it.
func TestConnectionAgeOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mesh := xdstest.NewAuthority(t, "mesh")
		network := xdstest.NewMemory()
		origin := network.NewStateOrigin(t, (*corev3.Node).GetCluster)
		change := func(i int) { origin.Set("shop", xdstest.Cluster("a", time.Duration(i)*time.Second)) }
		change(1)
		cfg := testConfig()
		cfg.Upstream.Addresses, cfg.Admin.Address = []string{origin.Addr()}, ""
		cfg.Authorization.AllowAny = true
		cfg.Listener = tlsListener(t, t.TempDir(), mesh)
		cfg.Downstream.MaxConnectionAge = time.Minute
		n := startWith(t, cfg, relay.Options{Listen: network.Listen, Dial: network.Dial})
		var clients []*xdstest.Auto
		for i := range 4 {
			c := xdstest.StartAuto(t, xdstest.AutoConfig{
				Addr: n.Addr(), Variant: []xdstest.Variant{xdstest.SotW, xdstest.Delta}[i%2], Node: xdstest.Node(fmt.Sprint("c", i), "shop"),
				DialOptions: []grpc.DialOption{network.Option(), grpc.WithTransportCredentials(credentials.NewTLS(mesh.ClientTLS(mesh, "web")))},
			})
			c.Subscribe(xdstest.ClusterType)
			c.WaitHeld(t, xdstest.ClusterType, "a")
			clients = append(clients, c)
		}
		const rounds = 24
		for i := range rounds {
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
			change(i + 2)
			for _, c := range clients {
				c.WaitFor(t, "the change", func() bool { return len(origin.Differences("shop", c)) == 0 })
			}
		}
		for _, c := range clients {
			c.CheckViolations(t)
			if s := c.Stats(); s.Streams < rounds/6 || !strings.Contains(fmt.Sprint(s.LastEnd), "age") {
				t.Errorf("a client had %d streams, the last of which ended with %v", s.Streams, s.LastEnd)
			}
		}
		if c := origin.Counts(); c.Streams != 1 {
			t.Errorf("the origin saw %d streams", c.Streams)
		}
	})
}
