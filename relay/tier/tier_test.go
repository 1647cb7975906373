package tier

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/shard"
)

// TestAlone: a node without peers streams each key from the origin, after its last known good state
// was restored. The hooks of the owner run as long as the stream; private groups have none.
func TestAlone(t *testing.T) {
	self := shard.Member{Name: "a"}
	var owned atomic.Int32
	ran, hooked := make(chan bool, 2), make(chan struct{}, 1)
	restored := false
	tier, err := New(Config{
		Members: shard.NewSolo(self),
		Origin: Origin{Run: func(ctx context.Context, f *cache.Feed) {
			ran <- f.Group().Private()
			<-ctx.Done()
		}},
		Restore: func(context.Context, *cache.Group) { restored = true },
		Own: []Hook{func(*cache.Group) (end func()) {
			owned.Add(1)
			hooked <- struct{}{}
			return func() { owned.Add(-1) }
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tier.Close()
	c, err := cache.New(cache.Config{Run: tier.Run, Wake: func([]*cache.Subscription) {}})
	if err != nil {
		t.Fatal(err)
	}
	g := c.Join("k", &corev3.Node{})
	if private := <-ran; private || !restored {
		t.Errorf("private: %t, restored before: %t", private, restored)
	}
	<-hooked
	c.JoinPrivate(g, &corev3.Node{})
	if private := <-ran; !private || owned.Load() != 1 {
		t.Errorf("private: %t, owned: %d", private, owned.Load())
	}
	c.Close()
	if owned.Load() != 0 {
		t.Error("a hook has outlived the ownership")
	}
}

// TestKeptCountsFirst: K16: the last known good state of a key is used before the origin, which may
// have lost a type, is asked for that type, also long after the node began to serve the key.
func TestKeptCountsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters, listeners := resource.TypeOf(resource.ClusterURL), resource.TypeOf(resource.ListenerURL)
		kept := cache.Snapshot{Type: listeners, Wildcard: true, Streams: []cache.SnapshotStream{{}}, AsOf: time.Now(), Recorded: true}
		kept.Resources = []cache.SnapshotResource{{Resource: resource.New(resource.Resource{Name: "kept", Body: []byte("x")}), Streams: 1}}
		peers := NewPeers(PeersConfig{Self: "a"})
		defer peers.Close()
		tier, err := New(Config{
			Members: shard.NewSolo(shard.Member{Name: "a"}), Peers: peers,
			Kept: func(_ context.Context, key string) ([]cache.Snapshot, error) {
				if key != "k" {
					t.Errorf("what was kept of %q was read", key)
				}
				return []cache.Snapshot{kept}, nil
			},
			Origin: Origin{Run: func(ctx context.Context, f *cache.Feed) {
				f.Up()
				for {
					for _, d := range f.TakeDemand(false, false) { // the origin has lost everything
						f.Apply(cache.Update{Type: d.Table.Type, Full: true})
					}
					select {
					case <-f.News():
					case <-ctx.Done():
						return
					}
				}
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer tier.Close()
		c, err := cache.New(cache.Config{Run: tier.Run, Wake: func([]*cache.Subscription) {}, MaxRemovalPercent: 50})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		g := c.Join("k", &corev3.Node{})
		var w cache.Watcher
		g.Table(clusters).Edit(&w, cache.Edit{AddWildcard: true})
		<-time.After(time.Hour)
		var late cache.Watcher
		table := g.Table(listeners)
		table.Edit(&late, cache.Edit{AddWildcard: true})
		<-time.After(10 * time.Second)
		if got, err := table.Changes(&late, cache.Query{Since: cache.Start}); err != nil || len(got.Resources) != 1 {
			t.Errorf("got %d listeners, %v; expected the one that was kept", len(got.Resources), err)
		}
	})
}

// TestAsk: questions to this node are answered without a connection, with the handler's errors, and a
// handler gets only the parameters that it was registered with.
func TestAsk(t *testing.T) {
	tier, err := New(Config{Members: shard.NewSolo(shard.Member{Name: "a"}), Origin: Origin{Run: func(context.Context, *cache.Feed) {}}})
	if err != nil {
		t.Fatal(err)
	}
	defer tier.Close()
	failure := errors.New("not today")
	tier.Handle("echo", func(_ context.Context, q url.Values) (any, error) {
		return q.Get("say") + q.Get("part:b") + q.Get("other"), nil
	}, "say", "part:")
	tier.Handle("fail", func(context.Context, url.Values) (any, error) { return nil, failure })
	answer, err := tier.Ask(t.Context(), tier.Self(), "echo?say=a+b&other=x&part=x&part:b=+c")
	var said string
	if err != nil || json.Unmarshal(answer, &said) != nil || said != "a b c" {
		t.Errorf("answer %q, %v", answer, err)
	}
	if _, err := tier.Ask(t.Context(), tier.Self(), "fail"); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	if _, err := tier.Ask(t.Context(), tier.Self(), "nothing"); status.Code(err) != codes.Unimplemented {
		t.Errorf("error %v", err)
	}
	if _, err := tier.Ask(t.Context(), shard.Member{Name: "b"}, "echo"); err == nil {
		t.Error("another node has answered, and there is none")
	}
}

// TestHeldQuestions: questions about held content are rejected if they name no possible key, or no
// other member to ask.
func TestHeldQuestions(t *testing.T) {
	peers := NewPeers(PeersConfig{Self: "a"})
	defer peers.Close()
	tier, err := New(Config{
		Members: shard.NewSolo(shard.Member{Name: "a"}), Origin: Origin{Run: func(context.Context, *cache.Feed) {}}, Peers: peers,
		Held:  func(context.Context, string) (*corev3.Node, []cache.Snapshot) { return nil, nil },
		Adopt: func(aggregation.Key, *corev3.Node, []cache.Snapshot) { t.Error("nothing was adopted") },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tier.Close()
	long := strings.Repeat("k", aggregation.MaxKeyLen+1)
	for path, want := range map[string]codes.Code{
		"held?key=k": codes.OK, "held": codes.InvalidArgument, "held?key=" + long: codes.InvalidArgument,
		"adopt?key=k": codes.InvalidArgument, "adopt?key=k&from=a": codes.InvalidArgument, "adopt?key=k&from=nobody": codes.PermissionDenied,
	} {
		if _, err := tier.Ask(t.Context(), tier.Self(), path); status.Code(err) != want {
			t.Errorf("%.40s: %v, expected %s", path, err, want)
		}
	}
}
