package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/xdsget"
	"xdsrelay/relay/xdstest"
)

// TestClient gets configuration from a relay with TLS and rules, and compares it with a control plane
// in plaintext. Each error names its cause and what to do.
func TestClient(t *testing.T) {
	dir := t.TempDir()
	mesh := xdstest.NewAuthority(t, "mesh")
	cert, key, ca := mesh.WriteFiles(dir, "relay.example")
	cp := xdstest.NewControlPlane(t, nil)
	cp.SetSnapshotOf(t, []string{xdstest.ListenerType}, "web", "v1", xdstest.Cluster("a", time.Second), xdstest.Endpoints("a", "127.0.0.1:1"))
	file := writeFile(t, "relay.yaml", strings.NewReplacer("CP", cp.Addr(), "CERT", cert, "KEY", key, "CA", ca).Replace(`
listener: {address: "127.0.0.1:0", tls: {cert_file: CERT, key_file: KEY, ca_file: CA}}
upstream: {addresses: ["CP"]}
admin: {address: "127.0.0.1:0"}
authorization: {rules: [{name: web, match: 'listener == "default" && node.cluster == "web"'}]}
`))
	p := startProgram(t, "run", "-c", file)
	relay, admin := p.address(t, "xds"), p.address(t, "admin")
	trusted := " --ca " + ca + " --server-name relay.example"
	known := trusted + " --cert " + cert + " --cert-key " + key
	node := writeFile(t, "envoy.yaml", "node: {id: envoy-1, cluster: web}\nadmin: {}\n")
	nothing := writeFile(t, "nothing.pem", "")
	for _, tc := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"--server " + relay + " --node-file " + node + known, 0, "2 resources from " + relay + " (delta-ads)", ""},
		{"--server " + relay + " --node-cluster web --variant sotw --per-type" + known + " CDS EDS/a", 0, "(sotw-per-type)", ""},
		{"--server " + relay + " --node-cluster web --compare " + cp.Addr() + known, 0, "2 equal, 0 differences", ""},
		{"--server " + cp.Addr() + " --node-cluster web --compare " + relay + strings.ReplaceAll(known, "--", "--compare-"), 0, "2 equal, 0 differences", ""},
		{"--server " + relay + " --node-cluster db" + known, 1, "", "PERMISSION_DENIED: no authorization rule allows this client's Node (tried: web); if the server is a relay, 'xdsrelay explain"},
		{"--server " + relay + " --node-cluster web", 1, "", "it may require TLS; set --tls, or --ca"},
		{"--server " + relay + " --node-cluster web --tls --server-name relay.example", 1, "", "from an authority that is not trusted here; set --ca"},
		{"--server " + relay + " --node-cluster web --ca " + ca, 1, "", "is for another name: "},
		{"--server " + relay + " --node-cluster web" + trusted, 1, "", "the server requires a client certificate from an authority that it trusts; set --cert and --cert-key"},
		{"--server " + cp.Addr() + " --node-cluster web --tls", 1, "", "the server does not use TLS; omit --tls"},
		{"--server " + cp.Addr() + " --node-cluster web --compare " + relay, 1, "", "it may require TLS; set --compare-tls, or --compare-ca"},
		{"--server " + admin + " --node-cluster web", 1, "", "the server uses HTTP/1.1, not gRPC; set --server"},
		{"--server 127.0.0.1:1 --timeout 300ms", 1, "", "connection refused; start the server, or set --server"},
		{"--server " + cp.Addr() + " --node-cluster none --timeout 300ms", 1, "", "sent no response within"},
		{"--server localhost", 2, "", `--server: got "localhost", expected host:port`},
		{"--server unix:", 2, "", "expected host:port, like 127.0.0.1:18000, or unix:PATH"},
		{"--compare x", 2, "", `--compare: got "x", expected host:port`},
		{"--compare-tls", 2, "", "need --compare"},
		{"--variant rest", 2, "", "expected delta or sotw"},
		{"--for 1s", 2, "", "--for needs --watch"},
		{"--watch --for -1s", 2, "", "--for: got -1s"},
		{"--watch --timeout 1s", 2, "", "watch timeout"},
		{"--timeout 0s", 2, "", "--timeout: got 0s"},
		{"--nack FOO", 2, "", `--nack: got "FOO"`},
		{"--nack CDS=", 2, "", "the reason in \"CDS=\" is empty"},
		{"FOO", 2, "", `RESOURCE: "FOO" names no type`},
		{"VHDS/x --per-type --variant sotw", 2, "", "has no service of its own"},
		{"--cert " + cert, 2, "", "--cert and --cert-key are required together"},
		{"--ca /nowhere", 2, "", "--ca: open /nowhere"},
		{"--ca " + nothing, 2, "", "no certificate in it"},
		{"--node-file /nowhere", 2, "", "node file: open /nowhere"},
		{"--node-metadata [", 2, "", "--node-metadata: expected an object"},
		{"-o text", 2, "", "--output: got"},
	} {
		code, stdout, stderr := command(t, append([]string{"client"}, strings.Fields(tc.args)...)...)
		if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
			t.Errorf("%s: exit code %d, want %d; got\n%s%s", tc.args, code, tc.code, stdout, stderr)
		}
	}
}

// TestClientNode: the Node is that of the file, which flags override.
func TestClientNode(t *testing.T) {
	cp := xdstest.NewControlPlane(t, nil)
	cp.SetSnapshotOf(t, []string{xdstest.ListenerType}, "edge", "v1", xdstest.Cluster("a", time.Second), xdstest.Endpoints("a", "127.0.0.1:1"))
	file := writeFile(t, "envoy.yaml", "node: {id: envoy-1, cluster: web, locality: {region: eu, zone: a}, metadata: {token: s3cret-abc, role: x}}\n")
	code, stdout, stderr := command(t, "client", "--server", cp.Addr(), "--node-file", file, "--node-cluster", "edge", "--zone", "b",
		"--node-metadata", "{role: edge, password: hunter2-abc}", "-o", "json")
	var st xdsget.State
	if err := json.Unmarshal([]byte(stdout), &st); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	node := strings.ReplaceAll(strings.Join(strings.Fields(string(st.Node)), ""), ",", " ")
	for _, want := range []string{`"id":"envoy-1"`, `"cluster":"edge"`, `"region":"eu"`, `"zone":"b"`, `"role":"edge"`} {
		if !strings.Contains(node, want) {
			t.Errorf("the Node is %s, without %s", node, want)
		}
	}
	if strings.Contains(stdout, "hunter2") {
		t.Errorf("a password is printed: %s", stdout)
	}
}

// TestClientWatch: the client prints updates as they arrive, until its time is over.
func TestClientWatch(t *testing.T) {
	dir := t.TempDir()
	clusters := func(timeout string) {
		t.Helper()
		next := filepath.Join(dir, ".next")
		text := "type_url: type.googleapis.com/envoy.config.cluster.v3.Cluster\nresources:\n" +
			"- {\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: a, connect_timeout: " + timeout + "}\n"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "cds.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	clusters("1s")
	p := startProgram(t, "run", "--upstream", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	lines, out := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"client", "CDS", "--server", p.address(t, "xds"), "--node-cluster", "web", "--watch"}, nil, out, io.Discard)
		_ = out.Close()
	}()
	buffer := make([]byte, 4096)
	for _, want := range []string{"added", "changed"} {
		n, err := lines.Read(buffer)
		if err != nil || !strings.Contains(string(buffer[:n]), "CDS   "+want) || !strings.Contains(string(buffer[:n]), "  a  ") {
			t.Fatalf("got %q, %v, expected cluster a to be %s", buffer[:n], err, want)
		}
		clusters("2s")
	}
	cancel()
	_, _ = io.Copy(io.Discard, lines)
	if c := <-code; c != 0 {
		t.Errorf("the exit code is %d", c)
	}
}
