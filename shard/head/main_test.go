package head

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// never is a time that passes in no test, soon one that passes in every test.
	never = time.Hour
	soon  = 20 * time.Millisecond
)

var clusters = resource.TypeOf(resource.ClusterURL)

// node is a node of a tier; the test acts as its control plane and peers.
type node struct {
	*Heads
	t      *testing.T
	name   string
	cache  *cache.Cache
	feeds  chan *cache.Feed
	reader *sdkmetric.ManualReader
}

// openStore connects to a Redis. calls is how long a call may take.
func openStore(t *testing.T, url string, calls time.Duration) *store.Store {
	t.Helper()
	return openMode(t, store.Standalone, url, calls)
}

func openMode(t *testing.T, mode store.Mode, url string, calls time.Duration) *store.Store {
	t.Helper()
	s, err := store.New(store.Config{URL: url, Mode: mode, Prefix: "test", Timeout: calls, Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// newNode creates a node that polls Redis at an interval, and reads nothing without a reason.
func newNode(t *testing.T, name string, s *store.Store, every, wait time.Duration) *node {
	t.Helper()
	return newNodeOf(t, name, s, Config{Every: every, Wait: wait, Sweep: never})
}

// newSweeper creates a node that polls Redis often, and reads all keys as often, to find values
// that were written by hand.
func newSweeper(t *testing.T, name string, s *store.Store, wait time.Duration) *node {
	t.Helper()
	return newNodeOf(t, name, s, Config{Every: soon, Wait: wait, Sweep: soon})
}

func newNodeOf(t *testing.T, name string, s *store.Store, cfg Config) *node {
	t.Helper()
	n := &node{t: t, name: name, feeds: make(chan *cache.Feed, 16), reader: sdkmetric.NewManualReader()}
	var err error
	n.cache, err = cache.New(cache.Config{
		HeadWait: never, Linger: -1,
		Wake: func([]*cache.Subscription) {},
		Run: func(ctx context.Context, f *cache.Feed) {
			n.feeds <- f
			<-ctx.Done()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Node, cfg.Active = s, name, n.cache.Active
	cfg.Logger, cfg.Meter = slog.New(slog.DiscardHandler), sdkmetric.NewMeterProvider(sdkmetric.WithReader(n.reader)).Meter("test")
	if cfg.Nodes == nil {
		cfg.Nodes = func() int { return 1 }
	}
	if cfg.Unstamped == nil {
		cfg.Unstamped = func() bool { return false }
	}
	n.Heads, err = New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.cache.Close()
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if cfg.Every == never {
		xdstest.Eventually(t, "the node to listen", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.missed // listening begins with that
		})
	}
	return n
}

// keyed is a key of a node, with a client of clusters.
type keyed struct {
	*node
	*cache.Group
	feed    *cache.Feed
	watcher cache.Watcher
}

// key gives the node a client in a key, which it follows from then on.
func (n *node) key(name string) *keyed {
	n.t.Helper()
	k := &keyed{node: n}
	k.Group = n.cache.Join(aggregation.Key(name), &corev3.Node{Id: "node"})
	k.feed = <-n.feeds
	k.Table(clusters).Replace(&k.watcher, true, nil)
	n.Follow(k.Group)
	return k
}

// own makes the node the owner of a key until stop is called.
func (k *keyed) own() (stop func()) {
	end := sync.OnceFunc(k.Own(k.Group))
	k.t.Cleanup(end)
	return end
}

// apply is an answer of the control plane, or of the owner.
func (k *keyed) apply(content ...string) {
	u := cache.Update{Type: clusters, Full: true}
	for i, c := range content {
		u.Resources = append(u.Resources, resource.New(resource.Resource{Name: fmt.Sprint(i), Body: []byte(c)}))
	}
	k.feed.Apply(u)
}

func (k *keyed) edition() cache.TableDigest { return k.Table(clusters).Digest() }

// head returns the head of the key's clusters that the node knows.
func (k *keyed) head() Head {
	h, _ := k.Of(string(k.Key), clusters.URL)
	return h
}

// sees waits until the node knows the head of the content of another one.
func (k *keyed) sees(of *keyed) Head {
	k.t.Helper()
	want := of.edition()
	xdstest.Eventually(k.t, k.name+" to see the head of "+of.name, func() bool { return k.head().Generation > 0 && k.head().holds(want) })
	return k.head()
}

// stored returns the state of a key in Redis.
func stored(t *testing.T, s *store.Store, key string) keyState {
	t.Helper()
	k, err := tryStored(t, s, key)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func tryStored(t *testing.T, s *store.Store, key string) (keyState, error) {
	r, err := s.Run(t.Context(), read, []string{name(s, key)})
	if err != nil {
		return keyState{}, err
	}
	return decodeKeyState(r, nil)
}

// storedSoon waits until a node has written its content.
func storedSoon(s *store.Store, k *keyed) (h Head) {
	k.t.Helper()
	xdstest.Eventually(k.t, "the head of "+k.name, func() bool {
		is, err := tryStored(k.t, s, string(k.Key)) // Redis may have been down
		h = is.heads[clusters.URL]
		return err == nil && h.Generation > 0 && h.holds(k.edition()) && h.Owner == k.name
	})
	return h
}

// metric returns the value of a counter or gauge with an attribute.
func (n *node) metric(name, attribute string) (v int64) {
	n.t.Helper()
	var all metricdata.ResourceMetrics
	if err := n.reader.Collect(context.Background(), &all); err != nil {
		n.t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			var points []metricdata.DataPoint[int64]
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				points = data.DataPoints
			case metricdata.Gauge[int64]:
				points = data.DataPoints
			}
			for _, p := range points {
				for _, a := range p.Attributes.ToSlice() {
					if a.Value.AsString() == attribute {
						v += p.Value
					}
				}
			}
		}
	}
	return v
}
