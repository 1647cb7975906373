package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/relay/xdstest"
)

// address is one of those that the program has logged.
func (p *program) address(t *testing.T, which string) string {
	t.Helper()
	_, rest, ok := strings.Cut(p.log.String(), " "+which+"=")
	if !ok {
		t.Fatalf("no %s in the log:\n%s", which, p.log)
	}
	addr, _, _ := strings.Cut(rest, " ")
	return addr
}

// TestRemote runs the commands for a running node against one.
func TestRemote(t *testing.T) {
	p := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", t.TempDir())
	admin, xds := p.address(t, "admin"), p.address(t, "xds")
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := nobody.Addr().String()
	nobody.Close()
	silent := closing(t)
	known := writeFile(t, "known.json", `{"id": "n", "cluster": "test-cluster"}`)
	node, nameless := writeFile(t, "node.json", `{"id": "n", "cluster": "shop"}`), writeFile(t, "nameless.json", `{"id": "n"}`)

	client := xdstest.Dial(t, xds).Open(xdstest.Delta)
	client.Subscribe(xdstest.ClusterType)
	xdstest.Eventually(t, "the node to know the key", func() bool {
		_, stdout, _ := command(t, "keys", "--admin", admin)
		return strings.Contains(stdout, "test-cluster")
	})

	for _, tc := range []struct {
		args           string
		code           int
		stdout, stderr string // a part of each; "" for nothing at all
	}{
		{"nodes --admin " + admin, 0, " *", ""},
		{"nodes -o json --admin " + admin, 0, `"nodes": [`, ""},
		{"keys --admin " + admin, 0, "test-cluster  ", ""},
		{"keys test-cluster --admin " + admin, 0, "owner", ""},
		{"keys nope --admin " + admin, 1, "", "xdsrelay: no node has the key \"nope\""},
		{"removals approve test-cluster --admin " + admin, 0, "no removals of key \"test-cluster\" are held back", ""},
		{"removals list --admin " + admin, 0, "no removals are held back", ""},
		{"removals approve nope --admin " + admin, 1, "", "xdsrelay: no node has the key \"nope\""},
		{"reconnect --admin " + admin, 1, "", "xdsrelay: this node has no control plane"},
		{"reconnect now --admin " + admin, 2, "", "xdsrelay: "},
		{"removals approve --admin " + admin, 2, "", "xdsrelay: expected one KEY"},
		{"explain --node-file " + node + " --admin " + admin, 0, "no node has the key", ""},
		{"explain -o json --node-file " + node + " --admin " + admin, 0, `"owner": "`, ""},
		{"explain --node-file " + nameless + " --admin " + admin, 1, "refused: rule default", "xdsrelay: the client is refused\n"},
		{"explain --node-file " + node + " --key-expression node.nothing --admin " + admin, 2, "", "xdsrelay: the configuration has 1 error:\n--key-expression"},
		{"explain --node-file " + known + " --key-expression node.cluster --admin " + admin, 0, "owner  ", ""},
		{"explain --node-file " + known + " --key-expression node.cluster -o json --admin " + admin, 0, `"state": "owner"`, ""},
		{"explain --node-file " + nameless + " --key-expression node.cluster --admin " + admin, 1, "refused: rule key", "xdsrelay: the client is refused\n"},
		{"explain --node-file " + node + " --key-expression node.cluster --admin " + refused, 0, "key: shop", "the owner of the key is unknown: no node answers at " + refused},
		{"explain --node-file " + node + " --key-expression node.cluster -o json --admin " + refused, 0, `"key": "shop"`, "the owner of the key is unknown"},
		{"explain --node-file " + node + " --admin " + refused, 1, "", "--offline explains the key without a node"},
		{"explain --node-file " + p.cmd.Args[0] + " --admin " + admin, 2, "", "xdsrelay: "},
		{"explain --node-file /nowhere --admin " + admin, 2, "", "xdsrelay: node file: open /nowhere"},
		{"nodes --admin " + refused, 1, "", "xdsrelay: no node answers at " + refused + ": connection refused; start a node, or set --admin"},
		{"nodes --admin " + xds, 1, "", "it does not use HTTP"},
		{"nodes --admin " + silent, 1, "", "xdsrelay: no node answers at " + silent + ": the server closed the connection without an answer; set --admin"},
		{"history --admin " + admin, 2, "", "xdsrelay: expected one KEY; 'xdsrelay keys' lists"},
		{"history test-cluster -n -1 --admin " + admin, 2, "", "xdsrelay: --limit: got -1, expected at least 1"},
		{"history test-cluster --type XDS --admin " + admin, 2, "", "xdsrelay: --type: got \"XDS\""},
		{"dump --admin " + admin, 2, "", "xdsrelay: expected one KEY"},
		{"dump test-cluster --type XDS --admin " + admin, 2, "", "xdsrelay: --type: got \"XDS\""},
		{"diff --admin " + admin, 2, "", "xdsrelay: expected one CLIENT, or two"},
		{"status a b --admin " + admin, 2, "", "xdsrelay: expected at most one CLIENT, got a b"},
		{"status --type XDS --admin " + admin, 2, "", "xdsrelay: --type: got \"XDS\""},
		{"status --state bad --admin " + admin, 2, "", "xdsrelay: --state: got \"bad\", expected synced"},
		{"status --fail-on bad --admin " + admin, 2, "", "xdsrelay: --fail-on: got \"bad\", expected synced"},
		{"status n --wait --admin " + admin, 2, "", "xdsrelay: --wait selects among all clients"},
		{"status n --key test-cluster --admin " + admin, 2, "", "xdsrelay: --key selects among all clients"},
		{"status --resources --admin " + admin, 2, "", "xdsrelay: --resources needs a CLIENT"},
		{"status --wait --timeout -1s --admin " + admin, 2, "", "xdsrelay: --timeout: got -1s, expected at least 0"},
		{"log-level loud --admin " + admin, 2, "", "xdsrelay: got \"loud\", expected debug, info, warn or error"},
		{"statsu", 2, "", "xdsrelay: unknown command \"statsu\" for \"xdsrelay\"; did you mean status?"},
		{"config schem", 2, "", "did you mean schema?"},
		{"nodes --admin nowhere", 2, "", "xdsrelay: --admin: got \"nowhere\", expected host:port"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, stdout, stderr := command(t, strings.Fields(tc.args)...)
			is := func(got, want string) bool { return got == want || want != "" && strings.Contains(got, want) }
			if code != tc.code || !is(stdout, tc.stdout) || !is(stderr, tc.stderr) {
				t.Errorf("exit code %d, want %d; got\n%s%s", code, tc.code, stdout, stderr)
			}
		})
	}

	t.Run("drain", func(t *testing.T) {
		code, stdout, stderr := command(t, "drain", "--admin", admin)
		if code != 0 || !strings.Contains(stdout, "closes 1 stream over 20s, and exits") {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
		if code, _, stderr := command(t, "drain", "--admin", admin); code != 1 || !strings.Contains(stderr, "already draining") {
			t.Errorf("once more: exit code %d: %s", code, stderr)
		}
		client.Cancel() // otherwise the node waits for it
		if code := p.wait(t); code != 0 || !strings.Contains(p.log.String(), "msg=stopped") {
			t.Errorf("the node ended with %d:\n%s", code, p.log)
		}
	})
}

// TestDrainWaits: drain --wait returns when the node has exited.
func TestDrainWaits(t *testing.T) {
	p := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", t.TempDir())
	code, stdout, stderr := command(t, "drain", "--wait", "--timeout", "30s", "--admin", p.address(t, "admin"))
	if code != 0 || !strings.Contains(stdout, "is draining") || !strings.HasSuffix(stdout, "\nthe node has exited\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code := p.wait(t); code != 0 {
		t.Errorf("the node ended with %d:\n%s", code, p.log)
	}
}

// closing is the address of a server that reads what is asked and ends the connection
// without a word, as Redis does.
func closing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			c.Close()
		}
	}()
	return l.Addr().String()
}

// TestWrongAddress: an error about an address says where the address comes from.
func TestWrongAddress(t *testing.T) {
	for args, want := range map[string]string{
		"nodes":                "xdsrelay: XDSRELAY_CLI_ADMIN: got \"nowhere\", expected host:port",
		"nodes --admin no:t:a": "xdsrelay: --admin: got \"no:t:a\", expected host:port",
	} {
		var stderr strings.Builder
		code := run(t.Context(), strings.Fields(args), []string{"XDSRELAY_CLI_ADMIN=nowhere"}, io.Discard, &stderr)
		if code != exitUsage || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%s: exit code %d: %s", args, code, stderr.String())
		}
	}
}

// TestRemovals holds that an operator sees and approves the removals that the guard holds back (K16).
func TestRemovals(t *testing.T) {
	dir := t.TempDir()
	serve := func(names ...string) {
		t.Helper()
		response := &discoveryv3.DiscoveryResponse{}
		for _, name := range names {
			response.Resources = append(response.Resources, xdstest.Any(xdstest.Cluster(name, 1)))
		}
		data, err := protojson.Marshal(response)
		if err != nil {
			t.Fatal(err)
		}
		hidden := filepath.Join(dir, ".clusters")
		if err := os.WriteFile(hidden, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(hidden, filepath.Join(dir, "clusters.json")); err != nil {
			t.Fatal(err)
		}
	}
	serve("a", "b", "c")
	file := writeFile(t, "relay.yaml", "upstream: {directory: "+dir+"}\nremoval_guard: {max_percent: 50, hold: 0s}\n")
	p := startProgram(t, "run", "-c", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	admin := p.address(t, "admin")
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: p.address(t, "xds"), Node: xdstest.Node("c", "shop")})
	c.Subscribe(xdstest.ClusterType)
	c.WaitFor(t, "three clusters", func() bool { return len(c.Held(xdstest.ClusterType)) == 3 })
	serve("a")
	held := func() int {
		_, stdout, _ := command(t, "keys", "shop", "-o", "json", "--admin", admin)
		var keys struct {
			Keys []struct {
				Nodes []struct {
					HeldRemovals int `json:"held_removals"`
				}
			}
		}
		if err := json.Unmarshal([]byte(stdout), &keys); err != nil || len(keys.Keys) != 1 || len(keys.Keys[0].Nodes) != 1 {
			t.Fatalf("%v in\n%s", err, stdout)
		}
		return keys.Keys[0].Nodes[0].HeldRemovals
	}
	xdstest.Eventually(t, "the removals to be held back", func() bool { return held() == 2 })
	if _, stdout, _ := command(t, "keys", "--admin", admin); !strings.Contains(stdout, "2 held removals") {
		t.Errorf("they are not shown:\n%s", stdout)
	}
	if n := len(c.Held(xdstest.ClusterType)); n != 3 {
		t.Errorf("the client has %d clusters", n)
	}
	if code, stdout, stderr := command(t, "removals", "approve", "shop", "--admin", admin); code != 0 || !strings.Contains(stdout, "2 removals of key \"shop\"") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	c.WaitFor(t, "what the origin has", func() bool { return len(c.Held(xdstest.ClusterType)) == 1 })
	if n := held(); n != 0 {
		t.Errorf("%d removals are held", n)
	}
}
