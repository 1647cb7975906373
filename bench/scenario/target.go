package scenario

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"xdsrelay/bench/report"
	"xdsrelay/relay/config"
)

// The kinds of targets.
const (
	kindRelay   = report.RelayTarget  // xdsrelay, between origin and fleet
	kindOrigin  = report.OriginTarget // nothing: the fleet connects to the origin
	kindFloor   = report.FloorTarget  // a gRPC server that sends the same bytes and knows no protocol
	kindTCP     = "tcp"               // a writer of the same bytes to TCP connections
	kindCommand = "command"           // any command, between origin and fleet
)

// Target is what is measured.
type Target struct {
	kind string
	arg  string // another relay program, the origin's cache, or the command
}

// String is the target as it is written.
func (t Target) String() string {
	if t.arg == "" {
		return t.kind
	}
	return t.kind + ":" + t.arg
}

// ParseTarget reads a target: relay, relay:PROGRAM, origin, origin:CACHE, floor,
// tcp, or command:COMMAND, which is run by the shell with {{.Origin}} and {{.Port}}
// replaced, the control plane's address and the port that it has to listen at
// on 127.0.0.1.
func ParseTarget(text string) (Target, error) {
	kind, arg, _ := strings.Cut(text, ":")
	t := Target{kind: kind, arg: arg}
	switch {
	case kind == kindCommand && arg != "":
		if _, err := t.commandLine("", 0); err != nil {
			return t, err
		}
		return t, nil
	case kind == kindRelay, kind == kindOrigin, arg == "" && (kind == kindFloor || kind == kindTCP):
		return t, nil
	}
	return t, fmt.Errorf("target %q, expected relay, relay:PROGRAM, origin, origin:CACHE, floor, tcp or command:COMMAND", text)
}

// knowsProtocol says whether the target is a server of the protocol, so that
// breaches of it mean something.
func (t Target) knowsProtocol() bool { return t.kind != kindFloor && t.kind != kindTCP }

// ownOrigin says whether the target makes its content itself.
func (t Target) ownOrigin() bool {
	return t.kind == kindFloor || t.kind == kindTCP || t.kind == kindOrigin
}

func (t Target) commandLine(origin string, port int) (string, error) {
	tmpl, err := template.New("command").Option("missingkey=error").Parse(t.arg)
	if err != nil {
		return "", fmt.Errorf("target %q: %w", t, err)
	}
	var b bytes.Buffer
	if err := tmpl.Execute(&b, struct {
		Origin string
		Port   int
	}{origin, port}); err != nil {
		return "", fmt.Errorf("target %q: %w", t, err)
	}
	return b.String(), nil
}

// Programs says how the processes are started that a measurement needs. All
// functions return new commands.
type Programs struct {
	// Child starts a child of ours: origin, floor or fleet, with its arguments.
	Child func(ctx context.Context, args ...string) *exec.Cmd
	// Relay starts a relay node with a configuration file.
	Relay func(ctx context.Context, file string) *exec.Cmd
}

// newNodes makes the nodes of a bed between an origin and a fleet. Files are
// put into dir.
func newNodes(ctx context.Context, b *bed, origin, dir string) ([]*node, error) {
	t, p, setup, count := b.target, b.p, b.setup, 1
	if t.kind == kindRelay {
		count = setup.Nodes
	}
	nodes := make([]*node, count)
	for i := range nodes {
		port, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		n := &node{name: fmt.Sprintf("%s node %d", t.kind, i+1), addr: fmt.Sprintf("127.0.0.1:%d", port), log: &logCount{}}
		nodes[i] = n
		limited := func(cmd *exec.Cmd) *exec.Cmd {
			if setup.Memory > 0 {
				cmd.Env = append(cmd.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", setup.Memory))
			}
			return cmd
		}
		if t.kind == kindCommand {
			line, err := t.commandLine(origin, port)
			if err != nil {
				return nil, err
			}
			n.command = func(ctx context.Context) *exec.Cmd {
				return limited(exec.CommandContext(ctx, "sh", "-c", "exec "+line))
			}
			continue
		}
		file := filepath.Join(dir, fmt.Sprintf("node-%d.yaml", i+1))
		admin, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		n.admin = fmt.Sprintf("127.0.0.1:%d", admin)
		if err := os.WriteFile(file, []byte(b.relayConfig(i, n, origin, filepath.Join(dir, fmt.Sprintf("good-%d", i+1)))), 0o600); err != nil {
			return nil, fmt.Errorf("configuration of %s: %w", n.name, err)
		}
		n.command = func(ctx context.Context) *exec.Cmd {
			if t.arg != "" {
				return limited(exec.CommandContext(ctx, t.arg, "run", "-c", file))
			}
			return limited(p.Relay(ctx, file))
		}
	}
	return nodes, nil
}

// relayConfig is the configuration of a node: the defaults, with metrics on.
// Nodes count from 0.
func (b *bed) relayConfig(number int, n *node, origin, dir string) string {
	setup, secured := b.setup, b.certs
	intervals, secure, together := "", "", ""
	if b.tier != nil {
		together = b.tier.config(number)
	}
	if ms := setup.MinInterval; ms > 0 {
		intervals = fmt.Sprintf("downstream:\n  min_interval: [Cluster=%dms, ClusterLoadAssignment=%[1]dms]\n", ms)
	}
	if secured != nil {
		secure = fmt.Sprintf("  tls: {cert_file: %q, key_file: %q, ca_file: %q}\nauthorization: {allow_any: true}\n", secured.Server, secured.Key, secured.CA)
	}
	return limitsFor(setup) + together + b.rolloutConfig(dir) + fmt.Sprintf(`node:
  name: node-%d
listener:
  address: %s
%supstream:
  addresses: ["%s"]
admin:
  address: %s
drain:
  duration: 2s
  grace: 2s
`, number+1, n.addr, secure+intervals, origin, n.admin)
}

// limitsFor are the limits of a node: the defaults, but for those that a setup is about, and those
// on one address, from which all clients come here.
func limitsFor(setup report.Setup) string {
	limits := make(map[string]any)
	if setup.Admit > 0 {
		limits["max_new_streams"], limits["new_streams_sync_time"] = setup.Admit, "1s"
	}
	defaults := config.Default().Limits
	if setup.Keys > defaults.MaxKeysPerIdentity {
		limits["max_keys_per_identity"], limits["max_keys"] = setup.Keys, max(setup.Keys, defaults.MaxKeys)
	}
	if setup.Clients > defaults.MaxStreamsPerSource {
		limits["max_streams_per_source"] = setup.Clients
	}
	if len(limits) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("limits:\n")
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		fmt.Fprintf(&b, "  %s: %v\n", name, limits[name])
	}
	return b.String()
}

// BuildRelay builds the relay of the checkout that the working directory is in,
// into a folder.
func BuildRelay(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "xdsrelay")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "xdsrelay/cmd/xdsrelay")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the relay: %w (name a program that is already built, or run this in its checkout)\n%s", err, out)
	}
	return program, nil
}
