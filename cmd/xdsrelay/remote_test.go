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
		{"members --admin " + admin, 0, "this one", ""},
		{"members --json --admin " + admin, 0, `"members": [`, ""},
		{"keys --admin " + admin, 0, "test-cluster  ", ""},
		{"keys test-cluster --admin " + admin, 0, "owner", ""},
		{"keys nope --admin " + admin, 1, "", "xdsrelay: no node has the key \"nope\""},
		{"release test-cluster --admin " + admin, 0, "no removals of key \"test-cluster\" are held", ""},
		{"release nope --admin " + admin, 1, "", "xdsrelay: no node has the key \"nope\""},
		{"reconnect --admin " + admin, 1, "", "xdsrelay: this node has no control plane"},
		{"reconnect now --admin " + admin, 2, "", "xdsrelay: "},
		{"release --admin " + admin, 2, "", "xdsrelay: expected one KEY"},
		{"key explain --node " + node + " --admin " + admin, 0, "no node has it", ""},
		{"key explain --json --node " + node + " --admin " + admin, 0, `"owner": "`, ""},
		{"key explain --node " + nameless + " --admin " + admin, 1, "refused: rule default", "xdsrelay: the client is refused\n"},
		{"key explain --node " + node + " --key node.nothing --admin " + admin, 2, "", "xdsrelay: the configuration has a mistake:\n--key"},
		{"key explain --node " + known + " --key node.cluster --admin " + admin, 0, "owner  ", ""},
		{"key explain --node " + known + " --key node.cluster --json --admin " + admin, 0, `"state": "owner"`, ""},
		{"key explain --node " + nameless + " --key node.cluster --admin " + admin, 1, "refused: rule key", "xdsrelay: the client is refused\n"},
		{"key explain --node " + node + " --key node.cluster --admin " + refused, 0, "key: shop", "who owns the key is not known: no node answers at " + refused},
		{"key explain --node " + node + " --key node.cluster --json --admin " + refused, 0, `"key": "shop"`, "who owns the key is not known"},
		{"key explain --node " + node + " --admin " + refused, 1, "", "-c or --key explain the key without a node"},
		{"key explain --node " + p.cmd.Args[0] + " --admin " + admin, 2, "", "xdsrelay: "},
		{"key explain --node /nowhere --admin " + admin, 2, "", "xdsrelay: node file: open /nowhere"},
		{"members --admin " + refused, 1, "", "xdsrelay: no node answers at " + refused + ": connection refused. Is one running here"},
		{"members --admin " + xds, 1, "", "it does not speak HTTP"},
		{"members --admin " + silent, 1, "", "xdsrelay: no node answers at " + silent + ": the connection was closed without an answer. Is this the admin port"},
		{"history --admin " + admin, 2, "", "xdsrelay: expected one KEY; 'xdsrelay keys' lists"},
		{"history test-cluster -n -1 --admin " + admin, 2, "", "xdsrelay: --limit: got -1, expected at least 1"},
		{"history test-cluster --type XDS --admin " + admin, 2, "", "xdsrelay: --type: got \"XDS\""},
		{"dump --admin " + admin, 2, "", "xdsrelay: expected one KEY"},
		{"dump test-cluster --type XDS --admin " + admin, 2, "", "xdsrelay: --type: got \"XDS\""},
		{"diff --admin " + admin, 2, "", "xdsrelay: expected one CLIENT; 'xdsrelay status' lists"},
		{"status a b --admin " + admin, 2, "", "xdsrelay: expected one CLIENT at most, got a b"},
		{"status --type XDS --admin " + admin, 2, "", "xdsrelay: --type: got \"XDS\""},
		{"status --state bad --admin " + admin, 2, "", "xdsrelay: --state: got \"bad\", expected some of"},
		{"status --fail-on bad --admin " + admin, 2, "", "xdsrelay: --fail-on: got \"bad\", expected some of"},
		{"status n --wait --admin " + admin, 2, "", "xdsrelay: --wait is about all clients: expected no CLIENT with it"},
		{"status n --key test-cluster --admin " + admin, 2, "", "xdsrelay: --key is about all clients"},
		{"status --resources --admin " + admin, 2, "", "xdsrelay: --resources is about one client"},
		{"status --wait --timeout -1s --admin " + admin, 2, "", "xdsrelay: --timeout: got -1s, expected at least 0"},
		{"log loud --admin " + admin, 2, "", "xdsrelay: got \"loud\", expected debug, info, warn or error"},
		{"statsu", 2, "", "xdsrelay: unknown command \"statsu\" for \"xdsrelay\"; did you mean status?"},
		{"config schem", 2, "", "did you mean schema?"},
		{"members --admin nowhere", 2, "", "xdsrelay: --admin: got \"nowhere\", expected host:port"},
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
		if code != 0 || !strings.Contains(stdout, "sends its clients away (1 streams over 20s), and ends") {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
		if code, _, stderr := command(t, "drain", "--admin", admin); code != 1 || !strings.Contains(stderr, "draining already") {
			t.Errorf("once more: exit code %d: %s", code, stderr)
		}
		client.Cancel() // else it would be sent away at any time of the drain
		if code := p.wait(t); code != 0 || !strings.Contains(p.log.String(), "msg=stopped") {
			t.Errorf("the node ended with %d:\n%s", code, p.log)
		}
	})
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

// TestRemoteFromEnvironment: a command takes the admin port and the token from variables
// of its own, not from those that configure the node, and says where a wrong address
// comes from.
func TestRemoteFromEnvironment(t *testing.T) {
	for _, test := range []struct{ env, flag, want string }{
		{"XDSRELAY_CLI_ADMIN=127.0.0.1:1234", "admin", "127.0.0.1:1234"},
		{"XDSRELAY_ADMIN_ADDRESS=0.0.0.0:19001", "admin", "127.0.0.1:19000"},
		{"XDSRELAY_CLI_ADMIN_TOKEN_FILE=/token", "admin-token-file", "/token"},
		{"XDSRELAY_ADMIN_TOKEN_FILE=/tokens", "admin-token-file", ""},
	} {
		cmd := (&app{env: []string{"HOME=/", test.env}}).newMembersCmd()
		if got := cmd.Flags().Lookup(test.flag).DefValue; got != test.want {
			t.Errorf("%s: --%s is %q, want %q", test.env, test.flag, got, test.want)
		}
	}
	for args, want := range map[string]string{
		"members":                "xdsrelay: XDSRELAY_CLI_ADMIN: got \"nowhere\", expected host:port",
		"members --admin no:t:a": "xdsrelay: --admin: got \"no:t:a\", expected host:port",
	} {
		var stderr strings.Builder
		code := run(t.Context(), strings.Fields(args), []string{"XDSRELAY_CLI_ADMIN=nowhere"}, io.Discard, &stderr)
		if code != exitUsage || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%s: exit code %d: %s", args, code, stderr.String())
		}
	}
}

// TestRelease holds that an operator lets go through what the guard held back, by its
// command, and sees before and after how things are (K16).
func TestRelease(t *testing.T) {
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
		_, stdout, _ := command(t, "keys", "shop", "--json", "--admin", admin)
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
	if _, stdout, _ := command(t, "keys", "--admin", admin); !strings.Contains(stdout, "2 removals held") {
		t.Errorf("they are not shown:\n%s", stdout)
	}
	if n := len(c.Held(xdstest.ClusterType)); n != 3 {
		t.Errorf("the client has %d clusters", n)
	}
	if code, stdout, stderr := command(t, "release", "shop", "--admin", admin); code != 0 || !strings.Contains(stdout, "2 removals of key \"shop\"") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	c.WaitFor(t, "what the origin has", func() bool { return len(c.Held(xdstest.ClusterType)) == 1 })
	if n := held(); n != 0 {
		t.Errorf("%d removals are held", n)
	}
}
