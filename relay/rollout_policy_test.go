package relay_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/events"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// staged is a node with a key that has a rollout policy, its control plane and its clients, which reject
// what has a cluster of the name "poison".
type staged struct {
	running
	trouble

	t       *testing.T
	origin  *xdstest.StateOrigin
	clients []*xdstest.Auto
	config  *config.Config
	log     lines
}

// stage starts a node with clients of both variants. edit may change the policy.
func stage(t *testing.T, variant config.Variant, clients int, edit func(*config.RolloutPolicy)) *staged {
	t.Helper()
	return stageWith(t, variant, clients, nil, edit)
}

// stageWith is stage with another configuration.
func stageWith(t *testing.T, variant config.Variant, clients int, configure func(*config.Config), edit func(*config.RolloutPolicy)) *staged {
	t.Helper()
	s := &staged{t: t, origin: xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster), config: testConfig()}
	if configure != nil {
		configure(s.config)
	}
	s.origin.Set("demo", s.revision("a")...)
	s.begin(s.origin.Addr(), variant, clients, edit)
	return s
}

// begin is stage with a control plane that has the revision "a".
func (s *staged) begin(controlPlane string, variant config.Variant, clients int, edit func(*config.RolloutPolicy)) {
	t, cfg := s.t, s.config
	t.Helper()
	cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{controlPlane}, variant
	cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory, cfg.LastKnownGood.WriteDelay = config.StoreDirectory, t.TempDir(), 100*time.Millisecond
	policy := quickPolicy()
	if edit != nil {
		edit(&policy)
	}
	cfg.Rollout.Policies, cfg.Rollout.Budget = []config.RolloutPolicy{policy}, []string{"100%"}
	cfg.Aggregation.Rules = []aggregation.Rule{{Name: "web", Key: "node.cluster", Rollout: "mine"}}
	s.running = startWith(t, cfg, relay.Options{Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	for i := range clients {
		s.join(fmt.Sprint("client-", i))
	}
	s.all("the first configuration", s.has("a"))
}

// quickPolicy is a policy "mine" with one step, of a half.
func quickPolicy() config.RolloutPolicy {
	policy := config.DefaultRolloutPolicy()
	policy.Name = "mine"
	policy.Settle = config.RolloutSettle{Quiet: 100 * time.Millisecond, Max: time.Second}
	policy.Steps = []config.RolloutStep{{Share: 0.5, Bake: time.Second}}
	policy.FinalBake, policy.Canaries.Small, policy.Canaries.Spread = time.Second, 0, ""
	return policy
}

// revision is the configuration that routes to a cluster.
func (s *staged) revision(cluster string) []proto.Message {
	return []proto.Message{
		xdstest.Cluster(cluster, time.Second), xdstest.Endpoints(cluster, "127.0.0.1:1"), xdstest.Listener("l", "127.0.0.1:1", "r"), xdstest.Route("r", cluster),
	}
}

func (s *staged) join(id string) *xdstest.Auto {
	s.t.Helper()
	node := xdstest.Node(id, "demo")
	node.UserAgentName = "test"
	node.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: fmt.Sprint(len(s.clients) % 2)}
	var c *xdstest.Auto
	c = xdstest.StartAuto(s.t, xdstest.AutoConfig{
		Addr: s.Addr(), Node: node, Variant: xdstest.Variant{Delta: len(s.clients)%2 == 1}, Nack: s.nack, BeforeAck: s.beforeAck(&c),
	})
	c.Subscribe(xdstest.ClusterType)
	c.Subscribe(xdstest.ListenerType)
	c.Subscribe(xdstest.RouteType, "r")
	c.Subscribe(xdstest.EndpointType, "a")
	s.clients = append(s.clients, c)
	return c
}

func rejectPoison(f *xdstest.Frame) string {
	for _, r := range f.Resources {
		if r.Name == "poison" && f.TypeURL == xdstest.ClusterType {
			return "cluster poison: it is poison"
		}
	}
	return ""
}

// has reports whether a client routes to a cluster, and has it.
func (s *staged) has(cluster string) func(*xdstest.Auto) bool {
	return func(c *xdstest.Auto) bool {
		_, has := c.Held(xdstest.ClusterType)[cluster]
		return has && strings.Contains(string(c.Held(xdstest.RouteType)["r"].Body), cluster)
	}
}

func (s *staged) all(what string, is func(*xdstest.Auto) bool) {
	s.t.Helper()
	for _, c := range s.clients {
		c.WaitFor(s.t, what, func() bool { return is(c) })
	}
}

func (s *staged) count(is func(*xdstest.Auto) bool) (n int) {
	for _, c := range s.clients {
		if is(c) {
			n++
		}
	}
	return n
}

// status is how far the rollout of the key is.
func (s *staged) status() ops.RolloutProgress {
	s.t.Helper()
	var all ops.Rollout
	_, text := s.get(s.t, "/api/v1/rollout?key=demo")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		s.t.Fatal(err)
	}
	if len(all.Keys) != 1 || all.Keys[0].Rollout == nil {
		return ops.RolloutProgress{State: "no rollout"} // no client has connected yet
	}
	return *all.Keys[0].Rollout
}

func (s *staged) waitState(state string) (is ops.RolloutProgress) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the last state: %+v", is)
		}
	}()
	xdstest.Eventually(s.t, "the state is "+state, func() bool {
		is = s.status()
		return is.State == state
	})
	return is
}

func (s *staged) order(do string, status int) {
	s.t.Helper()
	s.rollout(s.t, do, status, url.Values{ops.ParamKey: {"demo"}, ops.ParamReason: {"test"}})
}

// sawEvents waits for events, which are a little late: one may be about several keys.
func (s *staged) sawEvents(kinds ...events.Kind) {
	s.t.Helper()
	for _, kind := range kinds {
		xdstest.Eventually(s.t, "an event "+string(kind), func() bool {
			_, text := s.get(s.t, "/api/v1/events")
			return strings.Contains(text, string(kind))
		})
	}
}

func (s *staged) check() {
	s.t.Helper()
	if _, text := s.get(s.t, "/debug/check"); !strings.Contains(text, "ok") {
		s.t.Error(text)
	}
	for _, c := range s.clients {
		c.CheckViolations(s.t)
	}
}

func variants(t *testing.T, f func(t *testing.T, variant config.Variant)) {
	for _, v := range []config.Variant{config.Delta, config.SotW} {
		t.Run(string(v), func(t *testing.T) { f(t, v) })
	}
}

// TestPolicyGood: a revision that clients accept reaches scouts, a half of the clients and all of them, and
// is good after that. Endpoints pass at once; a client that is new in the middle gets the stable revision.
func TestPolicyGood(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		s := stage(t, variant, 10, nil)
		s.origin.Set("demo", s.revision("b")...)
		is := s.waitState("Stepping Bake")
		if n := s.count(s.has("b")); n > 5 {
			t.Errorf("%d clients have the revision in the step of a half of 10: %+v", n, is)
		}
		late := s.join("late")
		late.WaitFor(t, "the stable revision", func() bool { return s.has("a")(late) })
		s.origin.Set("demo", append(s.revision("b"), xdstest.Endpoints("a", "127.0.0.2:1"))...)
		s.all("new endpoints", func(c *xdstest.Auto) bool {
			return strings.Contains(string(c.Held(xdstest.EndpointType)["a"].Body), "127.0.0.2")
		})
		s.all("the revision", s.has("b"))
		is = s.waitState("Idle")
		s.sawEvents(events.RolloutStarted, events.RolloutPromoted)
		if is.Stable == "" || is.Good != is.Stable {
			t.Errorf("after the final bake: %+v", is)
		}
		s.check()
	})
}

// TestPolicyRejected: a revision that clients reject reaches the scouts alone. It is refused, also when the
// control plane sends it again; what it sends instead is released. A restart does not release it.
func TestPolicyRejected(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		s := stage(t, variant, 10, nil)
		s.origin.Set("demo", s.revision("poison")...)
		is := s.waitState("Held")
		s.sawEvents(events.RolloutStarted, events.RolloutFailed)
		if len(is.Rejections) == 0 || len(is.Refused) != 1 || is.Waits != "refused" {
			t.Fatalf("held: %+v", is)
		}
		if r := is.Rejections[0]; !strings.HasPrefix(r.Client, "client-") || r.Type != xdstest.ClusterType || !strings.Contains(r.Reason, "it is poison") || !slices.Equal(r.Resources, []string{"poison"}) {
			t.Errorf("rejected: %+v", r)
		}
		if _, text := s.get(t, "/api/v1/rollout/history?key=demo"); !strings.Contains(text, `"failed"`) || !strings.Contains(text, "it is poison") {
			t.Errorf("history: %s", text)
		}
		if _, text := s.get(t, "/metrics"); !strings.Contains(text, `xdsrelay_rollout_active{state="held"} 1`) || !strings.Contains(text, "xdsrelay_rollout_hold_duration_seconds_count 1") || !strings.Contains(text, `xdsrelay_rollout_verdicts_total{outcome="fail",signal="nacks"} 1`) {
			t.Errorf("metrics: %s", text)
		}
		s.all("the stable revision", s.has("a"))
		if n := s.count(func(c *xdstest.Auto) bool {
			_, has := c.Held(xdstest.RouteType)["r"]
			return !has || s.has("poison")(c)
		}); n > 0 {
			t.Errorf("%d clients have the refused revision", n)
		}
		s.origin.Remove("demo", xdstest.ClusterType, "poison")
		s.origin.Set("demo", s.revision("b")...)
		s.all("what the control plane sends instead", s.has("b"))
		s.waitState("Idle")
		s.origin.Set("demo", s.revision("poison")...)
		s.waitState("Held")
		s.all("the stable revision", s.has("b"))
		s.check()
	})
}

// TestPolicyOrders: operators approve, pause, promote without checks, and undo.
func TestPolicyOrders(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		s := stage(t, variant, 4, func(p *config.RolloutPolicy) { p.Mode = "manual" })
		s.order("approve", http.StatusConflict)
		s.origin.Set("demo", s.revision("b")...)
		s.waitState("Scouting Approval")
		s.order("approve", http.StatusOK)
		s.waitState("Stepping Approval")
		s.order("pause", http.StatusOK)
		s.order("approve", http.StatusConflict)
		if is := s.status(); is.Waits != "paused" {
			t.Errorf("paused: %+v", is)
		}
		s.order("resume", http.StatusOK)
		s.order("promote", http.StatusOK)
		s.all("the revision", s.has("b"))
		s.waitState("Idle")
		s.order("undo", http.StatusOK)
		s.all("the revision before", s.has("a"))
		s.waitState("Held")
		s.order("retry", http.StatusOK)
		s.waitState("Scouting Approval")
		s.order("abort", http.StatusOK)
		s.waitState("Held")
		s.all("the revision before", s.has("a"))
		s.check()
	})
}
