package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protojson"

	"xdsrelay/relay/xdstest"
)

const productionFile = "../../deploy/relay.production.yaml"

// TestProductionFile runs the production file as it is, but for paths and ports, with
// certificates of three authorities: it passes check, becomes ready, and serves a client
// that presents a certificate, and no other.
func TestProductionFile(t *testing.T) {
	dir := t.TempDir()
	ours, clients, upstream := xdstest.NewAuthority(t, "relay"), xdstest.NewAuthority(t, "clients"), xdstest.NewAuthority(t, "upstream")
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair := func(at string, a *xdstest.Authority, host string) (cert, key string) {
		t.Helper()
		c, k := a.Issue(host)
		return write(at+"/tls.crt", c), write(at+"/tls.key", k)
	}

	// The control plane: a relay that serves a directory over TLS, to certificates alone.
	resources, err := protojson.Marshal(xdstest.Any(xdstest.Cluster("c1", time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	write("xds/clusters.json", []byte(`{"resources": [`+string(resources)+`]}`))
	cert, key := pair("control-plane", upstream, "127.0.0.1")
	controlPlane := startProgram(t, "run", "--upstream", filepath.Join(dir, "xds"), "--listen", "127.0.0.1:0", "--admin=", "--authorize", "any",
		"--tls-cert", cert, "--tls-key", key, "--tls-ca", write("control-plane/ca.crt", ours.PEM))

	pair("etc/tls", ours, "127.0.0.1")
	write("etc/tls/clients-ca.crt", clients.PEM)
	pair("etc/upstream", ours, "relay")
	write("etc/upstream/ca.crt", upstream.PEM)
	write("etc/last-known-good/keys", []byte("k1:"+base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"))
	text, err := os.ReadFile(productionFile)
	if err != nil {
		t.Fatal(err)
	}
	file := write("relay.yaml", []byte(strings.NewReplacer(
		"/etc/xdsrelay", filepath.Join(dir, "etc"), "/var/lib/xdsrelay", filepath.Join(dir, "lib"),
		"control-plane.example:18000", controlPlane.address(t, "xds"),
		`":18000"`, `"127.0.0.1:0"`, `"127.0.0.1:19000"`, `"127.0.0.1:0"`, `":19001"`, `"127.0.0.1:0"`,
	).Replace(string(text))))
	if code, stdout, stderr := command(t, "config", "validate", "-c", file, "--connect"); code != 0 || strings.Contains(stderr, "warning") {
		t.Fatalf("check: %d\n%s%s", code, stdout, stderr)
	}

	p := startProgram(t, "run", "-c", file)
	var at struct{ Msg, XDS, Metrics string }
	for line := range strings.SplitSeq(p.log.String(), "\n") {
		if json.Unmarshal([]byte(line), &at) == nil && at.Msg == "serving" {
			break
		}
	}
	open := func(cluster string, of *xdstest.Authority, host string) *xdstest.Stream {
		t.Helper()
		conn := xdstest.Dial(t, at.XDS, grpc.WithTransportCredentials(credentials.NewTLS(ours.ClientTLS(of, host))))
		conn.Node = xdstest.Node("envoy-1", cluster)
		s := conn.Open(xdstest.Delta)
		s.Subscribe(xdstest.ClusterType)
		return s
	}
	s := open("web", clients, "web")
	response := s.RecvType(t, xdstest.ClusterType)
	if names := response.Names(); len(names) != 1 || names[0] != "c1" {
		t.Errorf("a client with a certificate gets %q\n%s", names, p.log)
	}
	s.Ack(response)
	xdstest.Eventually(t, "the node is ready", func() bool {
		res, err := http.Get("http://" + at.Metrics + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	if st := open("db", clients, "web").ExpectClosed(t); st.Code() != codes.PermissionDenied || !strings.Contains(st.Message(), "authorization") && !strings.Contains(st.Message(), "rule") {
		t.Errorf("a client that claims another cluster: %v", st)
	}
	conn, err := tls.Dial("tcp", at.XDS, ours.ClientTLS(nil))
	if err == nil {
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1)) // in TLS 1.3 the server says so after the handshake
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("a client without a certificate: %v", err)
	}
}

// TestMinimalFile runs the minimal file as it is, but for addresses: a client gets the resources of the control
// plane.
func TestMinimalFile(t *testing.T) {
	controlPlane := startProgram(t, "run", "--upstream", "../../deploy/examples/directory", "--listen", "127.0.0.1:0", "--admin=")
	code, text, stderr := command(t, "config", "default", "--minimal")
	if code != 0 || !strings.Contains(text, "control-plane.example:18000") {
		t.Fatalf("%d %s%s", code, text, stderr)
	}
	file := writeFile(t, "relay.yaml", strings.NewReplacer("control-plane.example:18000", controlPlane.address(t, "xds"), "127.0.0.1:18000", "127.0.0.1:0").Replace(text))
	relay := startProgram(t, "run", "-c", file, "--admin=")
	if code, stdout, stderr := command(t, "client", "CDS", "--server", relay.address(t, "xds"), "--node-cluster", "web", "-o", "name"); code != 0 || !strings.Contains(stdout, "CDS/web") {
		t.Errorf("%d %s%s\n%s", code, stdout, stderr, relay.log)
	}
}
