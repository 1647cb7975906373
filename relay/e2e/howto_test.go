//go:build e2e

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// howTo says how the commands of a page run: what a reader has before them, and what holds after them.
// Behind a pipe, grep has no -q: it would end at the first match, and the program by SIGPIPE.
type howTo struct {
	before, after string
	needs         string // a program
}

// served is a relay with a directory, and a client of it.
const served = `
xdsrelay run --upstream resources &
xdsrelay client --watch --for 50s --node-id web-1 --node-cluster web >watch.txt 2>&1 &
xdsrelay client --node-id wait --node-cluster web >/dev/null
`

var howTos = map[string]howTo{
	"envoy": {
		before: "printf 'listener: {address: 127.0.0.1:18000}\\nupstream: {directory: resources}\\n' >relay.yaml\n" +
			"envoy() { grep -q 18000 \"$2\"; }\n" +
			// The control plane to compare with is a relay on the same directory.
			"xdsrelay run --upstream resources --listen 127.0.0.1:18080 --admin 127.0.0.1:19080 &\n" + served,
		after: "grep -q /etc/certs/tls.pem envoy.yaml",
	},
	"files": {after: "xdsrelay client --node-cluster web | grep '8 resources'"},
	"go-control-plane": {
		before: "(cd \"$ROOT\" && go build -pgo=off -o \"$OLDPWD/origin\" ./deploy/examples/go-control-plane)\n",
		after:  "xdsrelay history web | grep shop",
	},
	"grpc": {
		before: "sed -i 's/name: svc$/name: payments/' resources/lds.yaml\n" +
			"(sleep 2; exec xdsrelay client LDS/payments --references --watch --for 40s --node-id checkout-1 --node-cluster checkout) >watch.txt 2>&1 &\n",
		after: "grep -q '\"checkout-1\"' xds.json",
	},
	"istio": {
		before: `cat >node.json <<'END'
{"id": "router~10.0.3.7~istio-ingressgateway-7d9f-x2k1.istio-system~istio-system.svc.cluster.local", "metadata": {"NAMESPACE": "istio-system"}}
END
`,
	},
	"migrate-from-xds-relay": {
		before: "cp \"$ROOT\"/relay/migrate/testdata/bootstrap.yaml .; cp \"$ROOT\"/relay/migrate/testdata/rules.yaml aggregation-rules.yaml\n",
		after:  "grep -q regex.replace relay.yaml",
	},
	"rest": {
		before: "xdsrelay run -c relay.yaml &\nxdsrelay client --node-cluster shop >/dev/null\n",
		after:  "test \"$(curl -s 127.0.0.1:18001/v3/discovery:clusters -d '{\"node\": {\"id\": \"me\", \"cluster\": \"shop\"}}' | grep -c '\"name\": *\"web\"')\" -ge 1",
	},
	"several-nodes": {
		after: "for i in 1 2 3 4 5 6 7 8 9 10; do test \"$(xdsrelay nodes -o name | wc -l)\" -eq 2 && break; sleep 0.5; done; test \"$(xdsrelay nodes -o name | wc -l)\" -eq 2",
		needs: "redis-server",
	},
	"tls": {
		// The last block is of a running node.
		before: "xdsrelay() { if [ \"$1\" = nodes ]; then command xdsrelay run -c relay.yaml --name a & sleep 3; fi; command xdsrelay \"$@\"; }\n",
		after:  "grep -q web.pem envoy.yaml",
		needs:  "openssl",
	},
}

// ofMachines are the names that pages use, by what they are here.
var ofMachines = strings.NewReplacer(
	"--upstream control-plane.example:18000", "--upstream resources",
	`addresses: ["control-plane.example:18000"]`, "directory: resources",
	"--compare control-plane.example:18000", "--compare 127.0.0.1:18080",
	"relay-a.example:18000,relay-b.example:18000", "127.0.0.1:18000",
	"relay.example:18000", "127.0.0.1:18000",
	"--upstream deploy/examples/directory", "--upstream resources",
	"--upstream DIR -c FILE", "--upstream resources -c relay.yaml",
	"go run ./deploy/examples/go-control-plane", "./origin",
	`make demo ARGS="--nodes 3"`, "xdsrelay demo --nodes 3",
	"bin/xdsrelay", "xdsrelay",
	"--for 30s", "--for 3s",
	// The certificates are of this machine alone, and a control plane is not part of the page.
	"  tls: {ca_file: mesh.pem, cert_file: relay.pem, key_file: relay.key}\n", "",
	"  redis: {url: \"rediss://redis.example:6379\", tls: {ca_file: mesh.pem}}\n", "  nodes: [\"a=127.0.0.1:18100\"]\n",
)

var (
	blockOfPage = regexp.MustCompile("(?s)```(sh|yaml)\n(.*?)```")
	foreground  = regexp.MustCompile(`(?m)^(xdsrelay run (?:[^&\n\\]|\\\n)*)$`)
)

// TestHowTo runs the commands of each how-to page, as a reader would on one machine. The first configuration
// of a page is relay.yaml. A command that runs until it is interrupted has a shell of its own.
func TestHowTo(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "how-to", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var commands []string
		configuration := ""
		for _, b := range blockOfPage.FindAllStringSubmatch(string(text), -1) {
			switch {
			case b[1] == "sh":
				commands = append(commands, foreground.ReplaceAllString(ofMachines.Replace(b[2]), "$1 &"))
			case configuration == "":
				configuration = ofMachines.Replace(b[2])
			}
		}
		how, known := howTos[name]
		if known != (len(commands) > 0) {
			t.Errorf("%s has %d blocks of commands, and the test knows of some: %v", name, len(commands), known)
		}
		if known {
			t.Run(name, func(t *testing.T) { how.run(t, root, configuration, commands) })
		}
	}
}

func (h howTo) run(t *testing.T, root, configuration string, commands []string) {
	for _, address := range []string{"127.0.0.1:18000", "127.0.0.1:19000"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Skipf("the commands need %s: %v", address, err)
		}
		l.Close()
	}
	if h.needs != "" {
		if _, err := exec.LookPath(h.needs); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command("cp", "-r", filepath.Join(root, "deploy", "examples", "directory"), filepath.Join(dir, "resources")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "relay.yaml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(program(t))+":"+os.Getenv("PATH"))
	t.Setenv("ROOT", root)
	// A reader takes longer than this from one block to the next.
	const pause = "\nsleep 1\n"
	runBlock(t, dir, "set -x\n"+h.before+strings.Join(commands, pause)+pause+h.after+"\nkill $(jobs -p) || true\nwait || true\n")
}
