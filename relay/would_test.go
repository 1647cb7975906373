package relay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/admin"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// post sends an order with a body to the admin port of a node.
func (w *tierWorld) post(node, path string, body []byte, into any) (code int, text string) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return w.network.Dial(ctx, address) }}}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.nodes[node].AdminAddr()+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set(admin.RequestHeader, "1")
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		w.t.Fatalf("%s: %v in %s", path, err, data)
	}
	return res.StatusCode, string(data)
}

// TestChangedRules: any node says for the whole tier what other rules would change, and nothing
// changes by that. After a reload of all nodes, the clients with a key from former rules are
// counted, and can be moved in steps: they get the content of their new key. Those that the rules
// would refuse keep what they have.
func TestChangedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTierWorld(t, 0, config.Delta, "red", "blue")
		var next atomic.Pointer[config.Config]
		token := tokenFile(t)
		w.tierRig = newTierRig(t, w.network, 0, func(cfg *config.Config) {
			cfg.Upstream.Addresses, cfg.Upstream.Variant, cfg.Admin.Address = []string{w.origin.Addr()}, config.Delta, "127.0.0.1:0"
			cfg.Tier.Peer.TokenFile = token
		})
		w.options.Source = relay.Source{Load: func() (*config.Config, error) { return next.Load(), nil }}
		w.grow(2)
		clients := map[string]*xdstest.Auto{}
		for i, id := range []string{"a", "b", "c", "stays", "refused"} {
			c := w.client(w.names[i%2], id, "red", xdstest.Delta)
			c.Subscribe(xdstest.ClusterType)
			c.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
			clients[id] = c
		}

		cfg := *w.configs["a"]
		cfg.Aggregation.Rules = []aggregation.Rule{
			{Name: "stays", Match: `node.id == "stays"`, Key: "node.cluster"},
			{Name: "moved", Match: `node.id != "refused"`, Key: `"blue"`, NodeField: "cluster"},
		}
		cfg.Limits.MaxStreams = 1
		cfg.Cache.Linger++
		next.Store(&cfg)
		salt := []byte(strings.Repeat("s", config.LeastSalt))
		candidate, err := json.Marshal(ops.CandidateOf(&cfg, salt))
		if err != nil {
			t.Fatal(err)
		}
		var would ops.Would
		if code, text := w.post("b", "/config/check", candidate, &would); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		got := fmt.Sprint(would.Nodes, would.Clients, would.Unchanged, would.Changed, would.Refused, would.Unknown, would.Refusals, len(would.Moves))
		if got != "[a b] 5 1 3 1 0 [{aggregation  no_rule 1 [refused]}] 1" || would.Moves[0].Clients != 3 || would.Moves[0].From != "red" || !strings.HasPrefix(would.Moves[0].To, "blue") {
			t.Errorf("would %s %+v", got, would.Moves)
		}
		if got := fmt.Sprint(would.Limits); got != "[{a limits.max_streams  0 2 1} {b limits.max_streams  0 2 1}]" {
			t.Errorf("limits %s", got)
		}
		effects := map[string]string{}
		for _, f := range would.Fields {
			effects[f.Field] = f.Effect + fmt.Sprint(len(f.Nodes))
		}
		if effects["aggregation.rules"] != "live2" || effects["limits.max_streams"] != "live2" || effects["cache.linger"] != "restart2" {
			t.Errorf("fields %v", would.Fields)
		}
		if code, text := w.post("a", "/config/check", []byte(`{"salt":"00","fields":{"node.name":"x"}}`), nil); code != http.StatusBadRequest || !strings.Contains(text, "salt") {
			t.Errorf("a bad candidate: %d %s", code, text)
		}

		cfg.Limits.MaxStreams = 0
		w.post("a", "/config/reload", nil, nil)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		if code, text := w.post("a", "/rules/apply?most=1", nil, nil); code != http.StatusConflict || !strings.Contains(text, "other aggregation rules") {
			t.Errorf("while the nodes differ: %d %s", code, text)
		}
		w.post("b", "/config/reload", nil, nil)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		var sum ops.Summary
		w.order("b", http.MethodGet, "/api/v1/summary", &sum)
		if got := fmt.Sprint(sum.Former); got != "map[key_changes:3 key_stays:1 no_key:1]" {
			t.Errorf("on former rules: %s", got)
		}
		if _, text := w.order("a", http.MethodGet, "/tier/nodes", nil); !strings.Contains(text, "move them with 'xdsrelay rules apply'") || !strings.Contains(text, "will be refused on reconnect") {
			t.Errorf("the warnings are %s", text)
		}
		var steps []int
		for range 3 {
			var a ops.Applied
			w.post("a", "/rules/apply?most=2", nil, &a)
			steps = append(steps, a.Ended)
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		}
		if got := fmt.Sprint(steps); got != "[2 1 0]" {
			t.Errorf("ended %s", got)
		}
		for id, c := range clients {
			key := "blue"
			if id == "stays" || id == "refused" {
				key = "red"
			}
			c.WaitHeld(t, xdstest.ClusterType, key+"-a", key+"-b")
		}
		var after ops.Summary
		w.order("a", http.MethodGet, "/api/v1/summary", &after)
		if got := fmt.Sprint(after.Clients, after.Former); got != "5 map[key_stays:1 no_key:1]" {
			t.Errorf("at the end: %s", got)
		}
		if code, _ := w.post("a", "/rules/apply?most=0", nil, nil); code != http.StatusBadRequest {
			t.Errorf("most=0: %d", code)
		}
	})
}
