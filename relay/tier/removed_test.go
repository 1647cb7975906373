package tier

import (
	"context"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/shard"
)

// TestRemovedQuestion: K16: this node answers which removals it holds back, and does those that the
// asking node has done, also while the key is idle. It answers questions about unknown keys and
// legs, too.
func TestRemovedQuestion(t *testing.T) {
	for name, idle := range map[string]bool{"in use": false, "idle": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRemovedQuestion(t, idle) })
		})
	}
}

func testRemovedQuestion(t *testing.T, idle bool) {
	peers := NewPeers(PeersConfig{Self: "a"})
	defer peers.Close()
	feeds := make(chan *cache.Feed, 1)
	var c *cache.Cache
	tier, err := New(Config{
		Members: shard.NewSolo(shard.Member{Name: "a"}), Peers: peers,
		Group: func(key aggregation.Key) *cache.Group { return c.GroupOf(key) },
		Origin: Origin{Run: func(ctx context.Context, f *cache.Feed) {
			feeds <- f
			<-ctx.Done()
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tier.Close()
	c, err = cache.New(cache.Config{Run: tier.Run, Wake: func([]*cache.Subscription) {}, Linger: time.Second, MaxRemovalPercent: 50, RemovalHold: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	clusters := resource.TypeOf(resource.ClusterURL)
	var w cache.Watcher
	g := c.Join("k", &corev3.Node{})
	table := g.Table(clusters)
	table.Edit(&w, cache.Edit{AddWildcard: true})
	f := <-feeds
	f.Up()
	f.Apply(cache.Update{Type: clusters, Full: true, Resources: []*resource.Resource{resource.New(resource.Resource{Name: "a&b", Body: []byte("x")})}})
	f.Apply(cache.Update{Type: clusters, Full: true})
	if idle {
		table.Leave(&w)
		c.Leave(g)
		<-time.After(time.Minute)
	}
	synctest.Wait()
	for _, step := range []struct {
		query url.Values
		want  string
	}{
		{url.Values{}, `{}`},
		{url.Values{paramKey: {"other"}, paramRemoved + clusters.URL: {"a&b"}}, `{}`},
		{url.Values{paramKey: {"k"}, paramLeg: {"other"}, paramRemoved + clusters.URL: {"a&b"}}, `{}`},
		{url.Values{paramKey: {"k"}}, `{"names":{"` + clusters.URL + `":["a\u0026b"]}}`},
		{url.Values{paramKey: {"k"}, paramRemoved + clusters.URL: {"else"}}, `{"names":{"` + clusters.URL + `":["a\u0026b"]}}`},
		{url.Values{paramKey: {"k"}, paramRemoved + clusters.URL: {"else", "a&b"}}, `{}`},
	} {
		answer, err := tier.Ask(t.Context(), tier.Self(), removedPath+"?"+step.query.Encode())
		if err != nil || string(answer) != step.want {
			t.Errorf("%v: %s, %v", step.query, answer, err)
		}
	}
}
