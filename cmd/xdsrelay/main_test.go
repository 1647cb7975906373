package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Unsetenv(asProgram)
		main()
	}
	time.Local = time.UTC // golden files have times of day
	goleak.VerifyTestMain(m)
}

// command runs the program in this process.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, nil, &out, &errs)
	return code, out.String(), errs.String()
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUsage holds the exit codes, and that an error is short.
func TestUsage(t *testing.T) {
	empty := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	broken := writeFile(t, "broken.yaml", "listener:\n  addrress: x\n")
	badDir := filepath.Dir(writeFile(t, "bad.json", "{"))
	node := writeFile(t, "node.json", `{"id": "n"}`)
	bomb := "id: x\na0: &a0 [x, x]\n"
	for i := range 40 {
		bomb += fmt.Sprintf("a%d: &a%[1]d [*a%d, *a%[2]d]\n", i+1, i)
	}
	bomb = writeFile(t, "bomb.yaml", bomb)
	deep := writeFile(t, "deep.yaml", "id: "+strings.Repeat("[", 100_000))
	documents := writeFile(t, "documents.yaml", "id: x\n"+strings.Repeat("---\nx\n", 1000))

	for _, tc := range []struct {
		args   string
		code   int
		stderr string // how it begins, or all of it where it ends in a line break
	}{
		{"", 0, ""},
		{"--help", 0, ""},
		{"runn", 2, "xdsrelay: unknown command \"runn\" for \"xdsrelay\"; did you mean run?\nSee 'xdsrelay --help'.\n"},
		{"run --nope", 2, "xdsrelay: unknown flag: --nope; did you mean --name?\nSee 'xdsrelay run --help'.\n"},
		{"run extra", 2, "xdsrelay: unknown command \"extra\""},
		{"run --plaintext=maybe", 2, "xdsrelay: invalid argument \"maybe\""},
		{"config validate", 2, "xdsrelay: required flag(s) \"config\" not set\nSee 'xdsrelay config validate --help'.\n"},
		{"explain", 2, "xdsrelay: required flag(s) \"node-file\" not set\nSee 'xdsrelay explain --help'.\n"},
		{"config nope", 2, "xdsrelay: unknown command"},
		{"run", 2, "xdsrelay: the configuration has 1 error:\nupstream: has no source of configuration"},
		{"run -c /nowhere.yaml", 2, "xdsrelay: configuration file: open /nowhere.yaml: no such file or directory\n"},
		{"run -c " + broken, 2, "xdsrelay: the configuration has 1 error:\n" + broken + ":2:3: listener.addrress: unknown field; did you mean address?\n    2 |   addrress: x\n      |   ^~~~~~~~\n"},
		{"config validate -c " + broken, 2, "xdsrelay: the configuration has 1 error:\n"},
		{"run --upstream " + empty + " --linger 5", 2, "xdsrelay: the configuration has 1 error:\n--linger: cache.linger: got \"5\", expected a duration"},
		{"run --upstream " + empty + " --key-expression node.clustr --upstream-variant x", 2, "xdsrelay: the configuration has 2 errors:\n"},
		{"run --upstream ./nowhere", 2, "xdsrelay: the configuration has 1 error:\n--upstream: upstream.directory: stat ./nowhere"},
		{"run --upstream nowhere", 2, "xdsrelay: the configuration has 1 error:\n--upstream: upstream.addresses[0]: got \"nowhere\", expected host:port"},
		{"run --upstream cp:1 --listen 0.0.0.0:1", 2, "xdsrelay: the configuration has 1 error:\n--listen: listener.address: \"0.0.0.0\" is not a loopback address"},
		{"run --upstream cp:1 --admin :1", 2, "xdsrelay: the configuration has 1 error:\n--admin: admin.address: an empty host"},
		{"run --upstream cp:1 --listen 127.0.0.1:0 --admin " + taken.Addr().String(), 1,
			"xdsrelay: admin.address: listen tcp " + taken.Addr().String() + ": bind: address already in use\n"},
		{"run --upstream cp:1 --admin= --listen " + taken.Addr().String(), 1,
			"xdsrelay: listener.address: listen tcp " + taken.Addr().String() + ": bind: address already in use\n"},
		{"config validate -c /dev/null --upstream " + badDir, 1, "xdsrelay: "},
		{"explain --offline --node-file /nowhere.json", 2, "xdsrelay: node file: open /nowhere.json: no such file or directory\n"},
		{"explain --offline --node-file " + broken, 2, "xdsrelay: node file: "},
		{"explain --offline --node-file " + writeFile(t, "envoy.yaml", "node:\n  id: web-1\n  cluster: web\n"), 0, ""},
		{"explain --offline -c " + writeFile(t, "elsewhere.yaml", "listener:\n  tls: {cert_file: /nowhere.pem, key_file: /nowhere.key}\n") + " --node-file " + writeFile(t, "node.yaml", "node:\n  id: web-1\n  cluster: web\n"), 0, ""},
		{"explain --offline --node-file " + writeFile(t, "bad.yaml", "node: [\n"), 2, "xdsrelay: node file: is neither JSON nor YAML: "},
		{"explain --offline --node-file " + bomb, 2, "xdsrelay: node file: is neither JSON nor YAML: line "},
		{"explain --offline --node-file " + deep, 2, "xdsrelay: node file: is neither JSON nor YAML: line 1, column 1: nested more than"},
		{"explain --offline --node-file " + documents, 2, "xdsrelay: node file: is neither JSON nor YAML: line 18, column 1: a second YAML document"},
		{"migrate " + deep, 2, "xdsrelay: " + deep + ":1:1: nested more than"},
		{"migrate " + documents, 2, "xdsrelay: " + documents + ":18:1: a second YAML document begins here"},
		{"explain --offline --node-file " + writeFile(t, "bad.bin", "\xff\x00"), 2, "xdsrelay: node file: is not text, expected JSON or YAML\n"},
		{"explain --offline --node-file " + node + " --key-expression node.metadata.team", 1, "xdsrelay: the client is refused\n"},
		{"explain --offline --node-file " + node + " --key-expression 1", 2, "xdsrelay: the configuration has 1 error:\n--key-expression: aggregation.rules[0].key: "},
		{"explain --offline --node-file " + node + " --key-expression node.id --peer-file " + broken, 2, "xdsrelay: peer file: "},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, _, stderr := command(t, strings.Fields(tc.args)...)
			ok := strings.HasPrefix(stderr, tc.stderr)
			if strings.HasSuffix(tc.stderr, ".\n") || tc.stderr == "" {
				ok = stderr == tc.stderr
			}
			if code != tc.code || !ok {
				t.Errorf("exit code %d, want %d; got\n%s\nwant\n%s", code, tc.code, stderr, tc.stderr)
			}
			if strings.Contains(stderr, "Usage:") {
				t.Errorf("the usage is dumped:\n%s", stderr)
			}
		})
	}
}

// TestCheckTier holds what is said of a tier, and that it is no secret.
func TestCheckTier(t *testing.T) {
	file := writeFile(t, "relay.yaml", "upstream: {directory: "+t.TempDir()+"}\nnode: {name: a}\n")
	args := []string{"config", "validate", "-c", file, "--peer", "127.0.0.1:1", "--redis", "redis://me:secret@127.0.0.1:2"}
	if code, stdout, stderr := command(t, args...); code != 0 || !strings.Contains(stdout, "  tier      Redis; peer address 127.0.0.1:1\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	file = writeFile(t, "list.yaml", "upstream: {directory: "+t.TempDir()+"}\nnode: {name: a}\ntier: {nodes: ['a=127.0.0.1:1', 'b=127.0.0.1:2'], peer: {address: '127.0.0.1:1'}}\n")
	if code, stdout, stderr := command(t, "config", "validate", "-c", file); code != 0 || !strings.Contains(stdout, "  tier      a=127.0.0.1:1, b=127.0.0.1:2; peer address 127.0.0.1:1\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, "relay.yaml", "upstream: {directory: "+dir+"}\nadmin: {address: ''}\n"+
		"aggregation:\n  rules:\n  - {name: edge, match: node.cluster == 'edge', key: node.id}\n  - {name: rest, key: node.cluster}\n")
	code, stdout, stderr := command(t, "config", "validate", "-c", file)
	want := "ok: " + file + `
  clients   127.0.0.1:18000 (plaintext)
  upstream  directory ` + dir + `
  rules     edge: key node.id for node.cluster == 'edge'
            rest: key node.cluster for all clients
  admin     disabled
`
	if code != 0 || stdout != want || stderr != "" {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", code, stdout, stderr, want)
	}
}

func TestExplain(t *testing.T) {
	node := writeFile(t, "node.json", `{"node": {"id": "n", "cluster": "web", "locality": {"zone": "z1"}}}`)
	peer := writeFile(t, "peer.json", `{"authenticated": true, "spiffe_id": "spiffe://x/y"}`)

	code, stdout, stderr := command(t, "explain", "--offline", "--node-file", node)
	if code != 0 || !strings.Contains(stdout, "default   chosen ") || !strings.Contains(stdout, "\nkey: web\n") {
		t.Errorf("table: exit code %d\n%s%s", code, stdout, stderr)
	}

	code, stdout, stderr = command(t, "explain", "--offline", "--node-file", node, "-o", "json", "--peer-file", peer, "--key-expression", "peer.spiffe_id")
	var all struct {
		Rules struct {
			Key   string `json:"key"`
			Rule  string `json:"rule"`
			Rules []struct {
				Outcome string `json:"outcome"`
			} `json:"rules"`
		} `json:"rules"`
	}
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	got := all.Rules
	if got.Key != "spiffe://x/y~none" || got.Rule != keyFlag || len(got.Rules) != 1 || got.Rules[0].Outcome != "chosen" {
		t.Errorf("JSON: %+v", got)
	}

	code, stdout, _ = command(t, "explain", "--offline", "--node-file", node, "-o", "json", "--key-expression", "node.metadata.team")
	if code != 1 || !strings.Contains(stdout, `"reason": "rule_failed"`) {
		t.Errorf("refused: exit code %d\n%s", code, stdout)
	}
}

func TestConfigCommands(t *testing.T) {
	code, stdout, _ := command(t, "config", "default")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	// What is printed is a file that works once it has an origin.
	file := writeFile(t, "relay.yaml", stdout)
	if code, _, stderr := command(t, "config", "validate", "-c", file, "--upstream", "cp:1"); code != 0 {
		t.Errorf("the default file: exit code %d\n%s", code, stderr)
	}
	if code, stdout, _ := command(t, "config", "env"); code != 0 || !strings.Contains(stdout, "XDSRELAY_LISTENER_ADDRESS ") {
		t.Errorf("config env: exit code %d\n%s", code, stdout)
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := command(t, "version")
	if code != 0 || !strings.HasPrefix(stdout, "xdsrelay dev\ncommit ") || !strings.Contains(stdout, "\ngo       go1.") || !strings.Contains(stdout, "\ngrpc     1.") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

// TestRunEnds holds that run serves until its context ends, and then succeeds.
func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &watchedLog{serving: make(chan struct{})}
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", t.TempDir()},
			[]string{"XDSRELAY_LOG_FORMAT=json", "XDSRELAY_NODE_NAME=n1"}, log, log)
	}()
	<-log.serving
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d\n%s", code, log)
	}
	for _, want := range []string{`"msg":"serving"`, `"node":"n1"`, `"msg":"draining"`, `"msg":"stopped"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
}

// TestExplainAuthorization: explain applies the rules for authorization, to the identity and the
// listener that flags give.
func TestExplainAuthorization(t *testing.T) {
	node := writeFile(t, "node.json", `{"id":"a","cluster":"web"}`)
	file := writeFile(t, "relay.yaml", "authorization:\n  rules:\n    - name: own\n      match: listener == \"mesh\" && peer.spiffe_id == \"spiffe://corp/\" + node.cluster\n")
	for args, want := range map[string]int{"spiffe://corp/web mesh": 0, "spiffe://corp/db mesh": 1, "spiffe://corp/web other": 1} {
		id, listener, _ := strings.Cut(args, " ")
		code, stdout, _ := command(t, "explain", "--offline", "--node-file", node, "-c", file, "--spiffe-id", id, "--listener", listener)
		if code != want || strings.Contains(stdout, "key: web") != (want == 0) || !strings.Contains(stdout, "own ") {
			t.Errorf("%s: %d\n%s", args, code, stdout)
		}
	}
}
