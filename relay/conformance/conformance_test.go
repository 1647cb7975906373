package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/relay/xdstest/conversation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs every script in each of its combinations, through a relay
// node of its own. All of it happens in virtual time, so that no busy machine can
// come between what a script says and a time that runs out, and no silence costs
// any. The names of the subtests are RULE/short-name/down-over-up.
func TestConformance(t *testing.T) {
	all, err := conversation.Scripts("testdata")
	if err != nil {
		t.Fatalf("\n%v", err)
	}
	for _, s := range all {
		t.Run(s.Rules[0]+"/"+s.Name, func(t *testing.T) {
			t.Parallel()
			for _, combination := range s.Combinations {
				t.Run(combination, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						network := xdstest.NewMemory()
						start := func(t xdstest.TB, setup conversation.Setup) conversation.Server {
							return startRelay(t, setup, network)
						}
						s.Run(t, combination, conversation.Options{Start: start, Network: network})
					})
				})
			}
		})
	}
}

// baseConfig is the configuration of every node: ports that are free, and times
// that suit a test. Scripts add to it.
const baseConfig = `
node: {name: %s}
listener: {address: "127.0.0.1:0"}
admin: {address: ""}
upstream:
  addresses: [%s]
  variant: %s
  backoff: {initial: 20ms, max: 100ms}
cache: {confirm_timeout: 200ms}
drain: {duration: 10ms, grace: 5s}
`

// startRelay starts the node that a script talks to.
func startRelay(t xdstest.TB, setup conversation.Setup, network *xdstest.Memory) conversation.Server {
	t.Helper()
	base := fmt.Sprintf(baseConfig, setup.Name, strings.Join(setup.Origins, ", "), setup.Up)
	cfg := loadConfig(t, base, setup.Config)
	n := &node{t: t, cfg: cfg, network: network}
	n.start()
	t.Cleanup(func() { n.stop() })
	return conversation.Server{Addr: func() string { return n.relay.Addr() }, Do: n.do}
}

// loadConfig reads a configuration of two parts, the second of which wins.
func loadConfig(t xdstest.TB, base, more string) *config.Config {
	t.Helper()
	merged, err := mergeYAML(base, more)
	if err != nil {
		t.Fatalf("the part config: %v", err)
	}
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, merged, 0o600); err != nil {
		t.Fatalf("%v", err)
	}
	cfg, err := config.Load(config.Input{File: file})
	if err != nil {
		t.Fatalf("the part config: %v", err)
	}
	return cfg
}

// node is a relay node that scripts can stop and start. All of it belongs to the
// goroutine of the test.
type node struct {
	t       xdstest.TB
	cfg     *config.Config
	network *xdstest.Memory
	relay   *relay.Node
	end     context.CancelFunc // nil while stopped
	done    chan error
}

// start makes the node anew, without any memory, at another address.
func (n *node) start() {
	n.t.Helper()
	made, err := relay.New(n.cfg, relay.Options{Version: "v-test", Listen: n.network.Listen, Dial: n.network.Dial})
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.relay, n.end, n.done = made, cancel, make(chan error, 1)
	go func() { n.done <- made.Run(ctx) }()
	xdstest.Eventually(n.t, "the node is ready", func() bool { return made.Ready() == nil })
}

// stop drains the node and waits for its end.
func (n *node) stop() {
	if n.end == nil {
		return
	}
	n.end()
	n.end = nil
	select {
	case err := <-n.done:
		if err != nil {
			n.t.Errorf("the relay ended with %v", err)
		}
	case <-time.After(xdstest.Patience):
		n.t.Errorf("the relay goes on after its context has ended")
	}
}

// do is what scripts can tell a relay: "relay drains" ends it as SIGTERM does,
// and "relay restarts" is that and a new one without any memory. "relay is
// sound" cross-checks its state.
func (n *node) do(words []string) error {
	switch what := strings.Join(words, " "); what {
	case "drains":
		n.stop()
	case "restarts":
		n.stop()
		n.start()
	case "is sound":
		if problems := n.relay.Check(); len(problems) > 0 {
			return fmt.Errorf("%s", strings.Join(problems, "; "))
		}
	default:
		return fmt.Errorf("a relay drains, restarts or is sound; it cannot %q", what)
	}
	return nil
}
