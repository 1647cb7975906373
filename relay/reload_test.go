package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"xdsrelay/relay"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/xdstest"
)

// logText is what a node logs.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what has been logged since it was last called.
func (l *logText) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// TestReload: a node takes a new configuration when its file changes or it is told to.
// What may change does so without the end of a stream; a mistake changes nothing, and
// is told; what only a restart puts into force is told, too.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		origin := network.NewStateOrigin(t, func(n *corev3.Node) string {
			if strings.Contains(n.GetId(), "canary") {
				return "canary-red"
			}
			return "red"
		})
		for _, key := range []string{"red", "canary-red"} {
			origin.Update(key, func(c *xdstest.Change) { c.Set(xdstest.Cluster(key, time.Second)) })
		}
		cfg := testConfig()
		cfg.Admin.Address, cfg.Upstream.Addresses = "", []string{origin.Addr()}
		cfg.Aggregation.Rules = []aggregation.Rule{{Name: "all", Key: "node.cluster"}}

		// What stands in the file is only a sign here; next is what it would say.
		file := filepath.Join(t.TempDir(), "relay.yaml")
		var mu sync.Mutex
		next, mistake := *cfg, error(nil)
		say := func(change func(*config.Config), err error) {
			mu.Lock()
			defer mu.Unlock()
			next, mistake = *cfg, err
			if change != nil {
				change(&next)
			}
			if err := os.WriteFile(file, fmt.Appendln(nil, time.Now().UnixNano(), err), 0o600); err != nil {
				t.Error(err)
			}
		}
		say(nil, nil)
		signals := make(chan os.Signal)
		var text logText
		logger, levels := relay.NewLogger(&text, cfg.Log)
		n := startWith(t, cfg, relay.Options{
			Version: "v-test", Listen: network.Listen, Dial: network.Dial, Logger: logger, Levels: levels,
			Source: relay.Source{File: file, Signals: signals, Load: func() (*config.Config, error) {
				mu.Lock()
				defer mu.Unlock()
				c := next
				return &c, mistake
			}},
		})
		client := func(id string) *xdstest.Auto {
			c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Variant: everyVariant[0], Node: xdstest.Node(id, "red"), DialOptions: []grpc.DialOption{network.Option()}})
			c.Subscribe(xdstest.ClusterType)
			return c
		}
		holds := func(c *xdstest.Auto, key string) {
			t.Helper()
			c.WaitFor(t, "the clusters of "+key, func() bool { return len(origin.Differences(key, c)) == 0 && len(c.Held(xdstest.ClusterType)) > 0 })
		}
		look := func() {
			time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time
			synctest.Wait()
		}
		first := client("first")
		holds(first, "red")
		text.take()

		canary := func(c *config.Config) {
			c.Aggregation.Rules = []aggregation.Rule{{Name: "canaries", Key: "'canary-' + node.cluster"}}
			c.Log.Level = config.LevelDebug
		}
		say(canary, nil)
		look()
		if l := text.take(); !strings.Contains(l, "configuration changed") || !strings.Contains(l, "[aggregation.rules log.level]") {
			t.Errorf("logged %s", l)
		}
		second := client("second")
		holds(second, "canary-red")
		holds(first, "red")
		if l := levels.Get()[logs.Tier]; l != slog.LevelDebug {
			t.Errorf("the level is %s", l)
		}

		bad := errors.New("relay.yaml:3:5: mistake")
		say(nil, bad)
		look()
		state := n.Settings()
		if l := text.take(); !strings.Contains(l, bad.Error()) || state.Rejected != bad.Error() || state.RejectedAt.IsZero() {
			t.Errorf("a mistake: the state is %+v, logged %s", state, l)
		}
		holds(client("third"), "canary-red")

		say(func(c *config.Config) {
			canary(c)
			c.Listener.Address, c.Drain.Duration = "127.0.0.1:1", time.Minute
		}, nil)
		signals <- os.Interrupt // whatever it is
		synctest.Wait()
		state = n.Settings()
		if state.Rejected != "" || !slices.Equal(state.Restart, []string{"listener.address"}) {
			t.Errorf("after a change that needs a restart: %+v", state)
		}
		if l := text.take(); !strings.Contains(l, "that require a restart") || !strings.Contains(l, "drain.duration") {
			t.Errorf("logged %s", l)
		}
		say(canary, nil)
		if state, err := n.Reload(); err != nil || len(state.Restart) > 0 {
			t.Errorf("taken back: %+v, %v", state, err)
		}
		if s := first.Stats(); s.Streams != 1 {
			t.Errorf("the first client needed %d streams", s.Streams)
		}
	})
}

// TestReloadMetrics: the metrics report whether the last load of the configuration succeeded, and when
// one last did.
func TestReloadMetrics(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{"127.0.0.1:1"}
	var mistake error
	n := startWith(t, cfg, relay.Options{Source: relay.Source{Load: func() (*config.Config, error) {
		c := *cfg
		return &c, mistake
	}}})
	look := func(want string) (at float64) {
		t.Helper()
		_, text := n.get(t, "/metrics")
		if line := "\nxdsrelay_config_last_reload_successful " + want + "\n"; !strings.Contains(text, line) {
			t.Errorf("the metrics lack %q", line)
		}
		_, value, _ := strings.Cut(text, "\nxdsrelay_config_last_reload_success_timestamp_seconds ")
		value, _, _ = strings.Cut(value, "\n")
		at, err := strconv.ParseFloat(value, 64)
		if err != nil || time.Since(time.UnixMilli(int64(at*1e3))).Abs() > time.Minute {
			t.Errorf("the time is %q", value)
		}
		return at
	}
	started := look("1")
	mistake = errors.New("relay.yaml:3:5: mistake")
	if _, err := n.Reload(); err == nil {
		t.Error("an invalid configuration was loaded")
	}
	if at := look("0"); at != started {
		t.Errorf("after a mistake the time is %v, expected %v", at, started)
	}
	mistake = nil
	if _, err := n.Reload(); err != nil {
		t.Error(err)
	}
	if at := look("1"); at <= started {
		t.Errorf("after a successful load the time is %v, as at the start", at)
	}
}

// TestReloadBeforeRun: a change of the file while a node is made counts as well.
func TestReloadBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		origin := network.NewStateOrigin(t, (*corev3.Node).GetCluster)
		cfg := testConfig()
		cfg.Admin.Address, cfg.Upstream.Addresses = "", []string{origin.Addr()}
		file := filepath.Join(t.TempDir(), "relay.yaml")
		replace(t, file, []byte("before"))
		next := *cfg
		next.Drain.Grace = 7 * time.Second
		n, err := relay.New(cfg, relay.Options{
			Version: "v-test", Listen: network.Listen, Dial: network.Dial,
			Source: relay.Source{File: file, Load: func() (*config.Config, error) { return &next, nil }},
		})
		if err != nil {
			t.Fatal(err)
		}
		replace(t, file, []byte("after"))
		began, done := time.Now(), make(chan error, 1)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		go func() { done <- n.Run(ctx) }()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !n.Settings().Loaded.After(began) {
			t.Errorf("what is in force: %+v", n.Settings())
		}
	})
}

// TestReloadWithPorts: authorization rules are in force together with the ports for which
// they are written: where these wait for a restart, the rules do. Others count at once.
func TestReloadWithPorts(t *testing.T) {
	mesh := xdstest.NewAuthority(t, "mesh")
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	writeResources(t, cfg.Upstream.Directory, "all.json", xdstest.Cluster("a", time.Second))
	cfg.Listener = tlsListener(t, t.TempDir(), mesh)
	cfg.Authorization.Rules = []authorize.Rule{{Name: "own", Match: `peer.spiffe_id == "spiffe://corp/" + node.cluster`}}
	next := *cfg
	n := startWith(t, cfg, relay.Options{Version: "v-test", Source: relay.Source{Load: func() (*config.Config, error) {
		c := next
		return &c, nil
	}}})
	// join is what becomes of a client that says that it is another.
	join := func() codes.Code {
		t.Helper()
		c := xdstest.Dial(t, n.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(mesh.ClientTLS(mesh, "spiffe://corp/web"))))
		c.Node = xdstest.Node("n", "db")
		s := c.Open(xdstest.Variant{Delta: true})
		s.Subscribe(xdstest.ClusterType)
		if _, err := s.Next(xdstest.Patience, func(*xdstest.Frame) bool { return true }); err != nil {
			return s.End(xdstest.Patience).Code()
		}
		return codes.OK
	}
	reload := func(change func(*config.Config), want ...string) {
		t.Helper()
		next = *cfg
		change(&next)
		if state, err := n.Reload(); err != nil || !slices.Equal(state.Restart, want) {
			t.Errorf("%+v, %v, want %v to wait", state, err, want)
		}
	}
	reload(func(c *config.Config) {
		c.Listener.TLS, c.Listener.AllowPlaintext, c.Authorization.Rules = config.DefaultListener().TLS, true, nil
		c.Limits.MaxKeys = 7
	}, "listener.allow_plaintext", "listener.tls.cert_file", "listener.tls.key_file", "listener.tls.ca_file", "authorization.rules")
	if code := join(); code != codes.PermissionDenied {
		t.Errorf("with the rules of ports without certificates: %s", code)
	}
	reload(func(c *config.Config) {
		c.Authorization.AllowAny, c.Authorization.Rules, c.Limits.MaxNamesPerStream = true, nil, 1
	}, "limits.max_names_per_stream")
	if code := join(); code != codes.OK {
		t.Errorf("with other rules: %s", code)
	}
}

// TestReloadNothing: a node whose configuration is its caller's own says so.
func TestReloadNothing(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Upstream.Addresses = nil
	n := start(t, cfg)
	if _, err := n.Reload(); err == nil || !strings.Contains(err.Error(), "no source") {
		t.Errorf("Reload: %v", err)
	}
}
