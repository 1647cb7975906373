package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"xdsrelay/fanout"
	"xdsrelay/relay/ops"
	"xdsrelay/shard"
)

// orderedModel is the model of a node on its own.
func orderedModel(local ops.Local) *ops.Model {
	self := shard.Member{Name: "n1"}
	answers := make(map[string]func(context.Context, url.Values) (any, error))
	return ops.New(local, &ops.Nodes{
		Self: func() shard.Member { return self }, Members: func() []shard.Member { return []shard.Member{self} },
		Ask: func(ctx context.Context, _ shard.Member, path string) ([]byte, error) {
			at, err := url.Parse(path)
			if err != nil {
				return nil, err
			}
			answer, err := answers[at.Path](ctx, at.Query())
			if err != nil {
				return nil, err
			}
			return json.Marshal(answer)
		},
	}, func(path string, h func(context.Context, url.Values) (any, error), _ ...string) { answers[path] = h })
}

// testOrders are carried out for anybody, and about nobody.
func testOrders(reconnect func(dry bool) int) ops.Orders {
	return ops.Orders{
		Kick:      func(fanout.Target, bool) []fanout.Ordered { return nil },
		Resend:    func(fanout.Target, string, bool) []fanout.Ordered { return nil },
		Reconnect: reconnect,
		Trusted:   func(context.Context) error { return nil }, Given: func(context.Context, ops.Order, string, int) {},
	}
}

// TestReconnect: the order to try control planes now says how many there are, and that
// there is none where the configuration comes from files. A dry run gives no order.
func TestReconnect(t *testing.T) {
	cfg := testConfig()
	given, has := 0, 2
	cfg.Tier.Model = orderedModel(ops.Local{Node: "n1", Orders: testOrders(func(dry bool) int {
		if !dry {
			given++
		}
		return has
	})})
	ask := serve(t, cfg)
	if a := ask(http.MethodPost, "/reconnect?dry_run=true", RequestHeader, "1"); a.code != http.StatusOK || a.text != "node n1 would retry all broken streams to 2 control planes now\ndry run: nothing was changed\n" || given != 0 {
		t.Errorf("%d %s", a.code, a.text)
	}
	if a := ask(http.MethodPost, "/reconnect", RequestHeader, "1"); a.code != http.StatusAccepted || !strings.Contains(a.text, "2 control planes") {
		t.Errorf("%d %s", a.code, a.text)
	}
	if a := ask(http.MethodPost, "/reconnect?node=n1&format=json", RequestHeader, "1"); a.code != http.StatusAccepted || !strings.Contains(a.text, `"control_planes": 2`) {
		t.Errorf("%d %s", a.code, a.text)
	}
	if a := ask(http.MethodPost, "/reconnect?node=n9", RequestHeader, "1"); a.code != http.StatusBadRequest || !strings.Contains(a.text, `the tier has no node "n9"`) {
		t.Errorf("%d %s", a.code, a.text)
	}
	has = 0
	if a := ask(http.MethodPost, "/reconnect", RequestHeader, "1"); a.code != http.StatusConflict || !strings.Contains(a.text, "directory") {
		t.Errorf("%d %s", a.code, a.text)
	}
	if given != 3 {
		t.Errorf("the order was given %d times, expected 3", given)
	}
	if a := ask(http.MethodPost, "/reconnect"); a.code != http.StatusForbidden || given != 3 {
		t.Errorf("without the header: %d %s", a.code, a.text)
	}
}

// TestClientOrderRefused: orders about no client say so, in text without control characters.
func TestClientOrderRefused(t *testing.T) {
	cfg := testConfig()
	cfg.Tier.Model = orderedModel(ops.Local{Node: "n1", Clients: func() []fanout.Client { return nil }})
	ask := serve(t, cfg)
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/kick":                             {http.StatusBadRequest, "the parameter client is missing: expected ?client=NAME\n"},
		"/kick?client=a%1b":                 {http.StatusNotFound, "no client with a stream has the name \"a\\x1b\"\n"},
		"/resend?client=a&type=x":           {http.StatusBadRequest, "type: got \"x\", expected a type URL, its last part, or a name like CDS\n"},
		"/resend?client=a&all=perhaps":      {http.StatusBadRequest, "all: got \"perhaps\", expected true or false\n"},
		"/resend?client=a&node=other":       {http.StatusBadRequest, "node: the tier has no node \"other\"; its nodes are n1\n"},
		"/kick?client=a&dry_run=2":          {http.StatusBadRequest, "dry_run: got \"2\", expected true or false\n"},
		"/kick?client=a&format=json&node=x": {http.StatusBadRequest, "{\n  \"error\": \"node: the tier has no node \\\"x\\\"; its nodes are n1\"\n}\n"},
	} {
		if a := ask(http.MethodPost, path, RequestHeader, "1"); a.code != want.code || a.text != want.text {
			t.Errorf("%s: %d %q, expected %d %q", path, a.code, a.text, want.code, want.text)
		}
	}
}
