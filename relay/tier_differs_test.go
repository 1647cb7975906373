package relay_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// operatedWith is newOperatedWorld with nodes that are not all the same.
func operatedWith(t *testing.T, nodes int, change func(*config.Config)) *tierWorld {
	t.Helper()
	w := newTierWorld(t, 0, config.Delta, "red")
	w.tierRig = newTierRig(t, w.network, nodes, func(cfg *config.Config) {
		cfg.Upstream.Addresses, cfg.Upstream.Variant, cfg.Admin.Address = []string{w.origin.Addr()}, config.Delta, "127.0.0.1:0"
		cfg.Drain.Duration, cfg.Drain.Grace = time.Second, time.Second
		change(cfg)
	})
	return w
}

// nodesNow is what a node says of all nodes, and those lines of it that people get which
// tell what is wrong.
func (w *tierWorld) nodesNow(node string) (now admin.NodesNow, wrong []string) {
	w.t.Helper()
	time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time: the next answer is another
	w.order(node, http.MethodGet, "/tier/nodes", &now)
	for _, one := range now.Warnings {
		wrong = append(wrong, one.Level+" "+one.Text+": "+one.Detail)
	}
	return now, wrong
}

// TestNodesThatDiffer: nodes whose rules or origins differ form one tier, and each of them
// says which is the odd one, and in what; nothing of the rules is told (K11).
func TestNodesThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rule = `"hidden-" + node.cluster`
		w := operatedWith(t, 3, func(cfg *config.Config) {
			if cfg.Node.Name == "a" {
				cfg.Aggregation.Rules = []aggregation.Rule{{Name: "secret rule", Key: rule}}
				cfg.Upstream.Addresses = append(cfg.Upstream.Addresses, "127.0.0.1:99")
			}
		})
		const want = "warning Node a has a config mismatch with node b: aggregation, upstream.addresses"
		for _, node := range []string{"a", "c"} {
			xdstest.Eventually(t, "the difference to be told", func() bool {
				_, wrong := w.nodesNow(node)
				return slices.Contains(wrong, want) && !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, "Node b has") || strings.Contains(s, "Node c has") })
			})
			var told strings.Builder
			for _, path := range []string{"/tier/nodes", "/api/v1/live", "/metrics", "/readyz?verbose"} {
				_, text := w.order(node, http.MethodGet, path, nil)
				told.WriteString(text)
			}
			if text := told.String(); strings.Contains(text, "hidden") || strings.Contains(text, "secret rule") || !strings.Contains(text, `section="aggregation"`) ||
				!strings.Contains(text, "\nok\n") || !strings.Contains(text, "\nwarning: Node a has a config mismatch with node b") {
				t.Errorf("node %s tells\n%s", node, text)
			}
		}
		w.nodes["a"].stop()
		w.nodes["a"].ended(t)
		w.roster.drop("a")
		w.configs["a"] = w.configs["b"]
		xdstest.Eventually(t, "the difference to be over", func() bool {
			now, _ := w.nodesNow("c")
			return len(now.Differences) == 0
		})
	})
}

// TestListedNodeThatIsAway: a node that tier.nodes names and that does not answer is
// shown, by whichever node is asked, with the reason and since when; and no longer once it
// answers.
func TestListedNodeThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTierWorld(t, 0, config.Delta, "red")
		list := []string{"a=" + peerAddr(0), "b=" + peerAddr(1), "c=" + peerAddr(2)}
		options := w.options
		options.Members = nil // the list is looked at
		start := func(i int) running {
			cfg := testConfig()
			cfg.Node.Name, cfg.Admin.Address = string(rune('a'+i)), "127.0.0.1:0"
			cfg.Tier.Nodes, cfg.Tier.Peer.Address, cfg.Tier.OwnerTimeout = list, peerAddr(i), ownerTimeout
			cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, config.Delta
			options.Listen, options.Dial = w.network.Listen, w.network.Dial
			return startWith(t, cfg, options)
		}
		w.nodes["a"], w.nodes["b"] = start(0), start(1)
		began := time.Now()
		away := func(node string) (state, detail string, since time.Time) {
			now, _ := w.nodesNow(node)
			if i := slices.IndexFunc(now.Nodes, func(n ops.LiveNode) bool { return n.Name == "c" }); i >= 0 {
				state = now.Nodes[i].State
			}
			for _, one := range now.Warnings {
				if one.Level == "error" && one.Node == "c" {
					detail, since = one.Detail, one.Since
				}
			}
			return state, detail, since
		}
		check := func(what string) {
			t.Helper()
			for _, node := range []string{"a", "b"} {
				if state, detail, since := away(node); state != "silent" || detail == "" || since.Sub(began).Abs() > time.Minute {
					t.Errorf("%s, node %s shows c as %q, since %v: %q", what, node, state, since, detail)
				}
			}
		}
		check("at once")
		time.Sleep(20 * time.Minute) //nolint:forbidigo // virtual time
		check("for long")
		w.nodes["c"] = start(2)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time: it is asked
		if state, detail, _ := away("a"); state != "ok" || detail != "" {
			t.Errorf("back again, c is %q: %q", state, detail)
		}
	})
}
