package relay_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"xdsrelay/fanout"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// poll polls the clusters of a node for a client of a key, all or those of some names, and
// returns the status and the version of the answer.
func (w *tierWorld) poll(node, id, key, version string, names ...string) (code int, told string) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return w.network.Dial(ctx, address)
	}}}
	body, err := protojson.Marshal(&discoveryv3.DiscoveryRequest{Node: xdstest.Node(id, key), VersionInfo: version, ResourceNames: names})
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := client.Post("http://"+w.nodes[node].RESTAddr()+"/v3/discovery:clusters", "application/json", strings.NewReader(string(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var got discoveryv3.DiscoveryResponse
	if res.StatusCode == http.StatusOK {
		if err := protojson.Unmarshal(data, &got); err != nil {
			w.t.Fatal(err)
		}
	}
	return res.StatusCode, got.GetVersionInfo()
}

// TestFleetWithPolls: whichever node of a tier is asked tells of clients that poll
// another one, as of those with streams: in pages, in numbers, one by one, in what they
// hold, and in the client status (K20, H5).
func TestFleetWithPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		stream := w.client("a", "streams", "red", xdstest.Delta)
		stream.Subscribe(xdstest.ClusterType)
		stream.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
		var version string
		xdstest.Eventually(t, "an answer", func() bool {
			var code int
			code, version = w.poll("b", "polls", "red", "")
			return code == http.StatusOK
		})
		stands := func(state ops.State) ops.Client {
			t.Helper()
			var all ops.Found
			w.order("a", http.MethodGet, "/api/v1/client?client=polls&resources=10", &all)
			if len(all.Clients) != 1 {
				t.Fatalf("%d clients of the name", len(all.Clients))
			}
			c := all.Clients[0]
			if c.State != state || c.Node != "b" || c.Key != "red" || c.Streams != 0 || c.Polled.IsZero() || !slices.Equal(c.Variants, []string{fanout.PollVariant}) ||
				len(c.Types) != 1 || c.Types[0].Name != "CDS" || len(c.Types[0].Resources) != 2 {
				t.Fatalf("%+v, expected %s", c, state)
			}
			return c
		}
		if c := stands(ops.Stale); c.Types[0].Version != version {
			t.Errorf("%+v", c)
		}
		if code, _ := w.poll("b", "polls", "red", version); code != http.StatusNotModified {
			t.Fatalf("the second poll: %d", code)
		}
		if c := stands(ops.Synced); c.Types[0].Has != version || c.Types[0].Resources[0].State != ops.Synced {
			t.Errorf("%+v", c)
		}
		var story ops.ClientEvents
		w.order("a", http.MethodGet, "/api/v1/client/events?client=polls", &story)
		var what []string
		for i := range story.Events {
			what = append(what, story.Events[i].What())
		}
		if !slices.Equal(what, []string{"polls (rest)", "sent in response to a poll, ACK with a later poll"}) || story.Events[1].Version != version {
			t.Errorf("the events are %q", what)
		}
		if got := namesOf(w.fleetOf("a", nil, 1)); !slices.Equal(got, []string{"polls on b", "streams on a"}) {
			t.Errorf("%q", got)
		}
		var sums ops.Summary
		w.order("a", http.MethodGet, "/api/v1/summary", &sums)
		if sums.Clients != 2 || sums.Streams != 1 || sums.States[ops.Synced] != 2 {
			t.Errorf("%+v", sums)
		}

		w.set("red", 2)
		xdstest.Eventually(t, "it to be stale", func() bool {
			return slices.Equal(namesOf(w.fleetOf("a", url.Values{"state": {"stale"}}, 10)), []string{"polls on b"})
		})
		var d ops.Diff
		if w.order("a", http.MethodGet, "/api/v1/diff?client=polls", &d); len(d.Diffs) != 1 || !d.Diffs[0].Differs {
			t.Errorf("%+v", d)
		}
		var streams []fanout.StreamInfo
		w.order("b", http.MethodGet, "/debug/streams?node=polls&state=STALE", &streams)
		if len(streams) != 1 || streams[0].Variant != fanout.PollVariant {
			t.Errorf("%+v", streams)
		}
		status := w.statusOf("a", "polls")
		if len(status) != 1 || len(status[0].GetGenericXdsConfigs()) != 3 || status[0].GetClientScope() != "red" {
			t.Fatalf("%v", status)
		}
		for _, g := range status[0].GetGenericXdsConfigs() {
			if s := g.GetConfigStatus(); s != statusv3.ConfigStatus_NOT_SENT && s != statusv3.ConfigStatus_SYNCED {
				t.Errorf("%v", g)
			}
		}

		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time, without a poll
		if got := namesOf(w.fleetOf("a", nil, 10)); !slices.Equal(got, []string{"streams on a"}) {
			t.Errorf("%q after a while", got)
		}
	})
}

// TestPollsMove: a client that polls another node from some time on is told of by that one
// alone, in lists and in numbers, and not as one that updates do not reach.
func TestPollsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		stream := w.client("a", "streams", "red", xdstest.Delta)
		stream.Subscribe(xdstest.ClusterType)
		stream.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
		version := ""
		visit := func(node string) {
			t.Helper()
			xdstest.Eventually(t, "an answer", func() bool {
				code, told := w.poll(node, "polls", "red", version)
				if told != "" {
					version = told
				}
				return code == http.StatusOK || code == http.StatusNotModified
			})
		}
		for _, node := range []string{"a", "b", "a"} {
			for range 4 {
				visit(node)
				time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time: so often it polls
			}
			for _, asked := range []string{"a", "b"} {
				if got := namesOf(w.fleetOf(asked, nil, 10)); !slices.Equal(got, []string{"polls on " + node, "streams on a"}) {
					t.Errorf("it polls %s, and node %s tells of %q", node, asked, got)
				}
				var sums ops.Summary
				if w.order(asked, http.MethodGet, "/api/v1/summary", &sums); sums.Clients != 2 || sums.States[ops.Synced] != 2 {
					t.Errorf("it polls %s, and node %s counts %+v", node, asked, sums)
				}
			}
		}
	})
}

// statusOf is what the client status service of a node tells of a client of the tier.
func (w *tierWorld) statusOf(node, id string) []*statusv3.ClientConfig {
	w.t.Helper()
	_, text := w.order(node, http.MethodPost, "/v3/discovery:client_status", nil)
	var rsp statusv3.ClientStatusResponse
	if err := protojson.Unmarshal([]byte(text), &rsp); err != nil {
		w.t.Fatalf("%v in %s", err, text)
	}
	return slices.DeleteFunc(rsp.GetConfig(), func(c *statusv3.ClientConfig) bool { return c.GetNode().GetId() != id })
}
