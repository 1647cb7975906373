package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/xdstest"
)

// childEnv names the environment variable that makes this program a node, and holds
// its [setup] in JSON.
const childEnv = "XDSRELAY_HOSTILE_NODE"

// setup says which node is attacked.
type setup struct {
	Origin string // address
	Polls  bool   // it has a port for clients that poll
	// Defaults keeps the shipped limits, in a process of its own with the memory of the
	// chart. Otherwise limits are small.
	Defaults bool
	// Memory is what its container has, in bytes, with Defaults.
	Memory int64
	// Linger is cache.linger, with Defaults; 0 for the shipped one.
	Linger time.Duration
	// Private is what a node has that is not for everybody, with Defaults, and Mesh a
	// folder with the certificate of its port for clients with certificates.
	Private *private
	Mesh    string
	// Operators is a folder with the certificate of the operators' port, its key, whose
	// certificates it takes, and a token; empty for a port on loopback.
	Operators string
	TLS       string // a folder with its certificate, its key and whose certificates it takes; empty for none
}

// Clients of a node with TLS may be of the key that their certificate names. That of
// the good ones is good for any.
const goodName = "good"

var tlsRules = []authorize.Rule{
	{Name: "the fleet", Match: `"` + goodName + `" in peer.dns_names`},
	{Name: "its own key", Match: `node.cluster in peer.dns_names`},
}

// ports are where a node listens.
type ports struct{ XDS, REST, Admin, Metrics, Mesh string }

// limits of the node under attack. Those that hold an attack back by time are short.
const (
	maxReceive   = 1 << 20
	maxNames     = 5_000
	maxKeys      = 100
	handshake    = time.Second
	firstRequest = request
	request      = 3 * time.Second // large requests come in it on a slow machine, too
	partialSize  = 8 << 20
	sendTimeout  = 3 * time.Second
	linger       = 200 * time.Millisecond
	absentAfter  = time.Second
	pollLinger   = time.Second // the least that is allowed
)

// nodeConfig is the configuration of the node under attack.
func (s setup) config() *config.Config {
	cfg := config.Default()
	cfg.Node.Name = "node"
	cfg.Listener.Address, cfg.Admin.Address = "127.0.0.1:0", "127.0.0.1:0"
	if s.Defaults {
		cfg.Metrics.Address, cfg.Upstream.Addresses = "127.0.0.1:0", []string{s.Origin}
		if s.Linger > 0 {
			cfg.Cache.Linger = s.Linger
		}
		if s.Private != nil {
			s.Private.add(cfg, s.Mesh)
		}
		return cfg
	}
	cfg.Limits.MaxRequestSize, cfg.Limits.MaxNamesPerStream = maxReceive, maxNames
	cfg.Downstream.HandshakeTimeout, cfg.Downstream.FirstRequestTimeout, cfg.Downstream.SendTimeout = handshake, firstRequest, sendTimeout
	cfg.Limits.MaxKeys, cfg.Downstream.RequestTimeout, cfg.Limits.MaxPartialRequestsSize = maxKeys, request, partialSize
	cfg.Upstream.Addresses, cfg.Upstream.ResourceTimeout = []string{s.Origin}, absentAfter
	cfg.Cache.Linger, cfg.Limits.MaxIdleKeysSize, cfg.Limits.MaxEncodedSize = linger, 1<<20, 1<<20
	if s.TLS != "" {
		t := &cfg.Listener.TLS
		t.CertFile, t.KeyFile, t.CAFile = filepath.Join(s.TLS, "cert.pem"), filepath.Join(s.TLS, "key.pem"), filepath.Join(s.TLS, "ca.pem")
		cfg.Authorization.Rules, cfg.Authorization.RecheckInterval = tlsRules, time.Second
	}
	if s.Operators != "" {
		a := &cfg.Admin
		a.TLS.CertFile, a.TLS.KeyFile, a.TLS.CAFile = filepath.Join(s.Operators, "cert.pem"), filepath.Join(s.Operators, "key.pem"), filepath.Join(s.Operators, "ca.pem")
		a.TokenFile = filepath.Join(s.Operators, "token")
	}
	if s.Polls {
		cfg.REST.Address, cfg.Limits.MaxRESTRequestSize, cfg.REST.PollTimeout = "127.0.0.1:0", maxReceive, 50*time.Millisecond
		cfg.Cache.Linger = pollLinger
	}
	cfg.Drain.Duration, cfg.Drain.Grace = 10*time.Millisecond, xdstest.Patience
	return cfg
}

// startNode runs a node in this process until the test ends.
func startNode(t *testing.T, cfg *config.Config) ports {
	t.Helper()
	node, err := relay.New(cfg, relay.Options{Version: "hostile"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the node ended with %v", err)
		}
	})
	xdstest.Eventually(t, "the node is ready", func() bool { return node.Ready() == nil })
	return portsOf(node)
}

func portsOf(n *relay.Node) ports {
	return ports{n.Addr(), n.RESTAddr(), n.AdminAddr(), n.MetricsAddr(), n.ListenerAddr("mesh")}
}

// child is a node as a process of its own.
type child struct {
	*os.Process

	end   func()        // lets it end, and waits for that
	ended chan struct{} // closed when it has ended
}

// startChild runs a node as a process of its own until the test ends.
func startChild(t *testing.T, of setup) (ports, *child) {
	t.Helper()
	arg, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(arg))
	if of.Defaults {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GOMEMLIMIT=%d", of.goMemory()))
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{Process: cmd.Process, ended: make(chan struct{})}
	var ended error
	go func() {
		defer close(c.ended)
		ended = cmd.Wait()
	}()
	c.end = sync.OnceFunc(func() {
		_ = in.Close()
		<-c.ended
		if ended != nil {
			t.Errorf("the node's process: %v", ended)
		}
	})
	t.Cleanup(c.end)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the node's process says nothing: %v", err)
	}
	var p ports
	if err := json.Unmarshal(line, &p); err != nil {
		t.Fatalf("the node's process says %q: %v", line, err)
	}
	return p, c
}

// serveAsChild is a node that runs until its standard input ends. With SIGUSR1 it
// gives the system the memory back that it does not use.
func serveAsChild() int {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	var of setup
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &of); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cfg, levels := of.config(), (*logs.Levels)(nil)
	if of.Private != nil {
		file, err := os.Create(of.Private.Log)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		log, levels = relay.NewLogger(file, cfg.Log)
	}
	node, err := relay.New(cfg, relay.Options{Version: "hostile", Logger: log, Levels: levels})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(portsOf(node)); err != nil {
		return 1
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			debug.FreeOSMemory()
		}
	}()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := node.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
