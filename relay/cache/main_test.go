package cache

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	clusters  = resource.TypeOf(resource.ClusterURL)  // full state
	endpoints = resource.TypeOf(resource.EndpointURL) // not
)

// world is a cache with one key; the test acts as its feed.
type world struct {
	t     rapid.TB
	cache *Cache
	group *Group
	feed  *Feed   // of the first stream
	all   []*Feed // by stream, as far as they have run
	feeds chan *Feed

	mu    sync.Mutex
	woken map[*Subscription]bool // since the last nap; guarded by mu
}

// newWorld returns a cache with one client in one key. The caller has to close it.
func newWorld(t rapid.TB, cfg Config) *world {
	t.Helper()
	w := &world{t: t, feeds: make(chan *Feed, 16), woken: make(map[*Subscription]bool)}
	cfg.Run = func(ctx context.Context, f *Feed) {
		w.feeds <- f
		<-ctx.Done()
	}
	if cfg.Wake == nil {
		cfg.Wake = func(subs []*Subscription) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, s := range subs {
				w.woken[s] = true
			}
		}
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.cache = c
	w.join()
	return w
}

// start is newWorld, closed when the test ends.
func start(t *testing.T, cfg Config) *world {
	t.Helper()
	w := newWorld(t, cfg)
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	w.t.Helper()
	for _, wrong := range w.cache.Check() {
		w.t.Errorf("%s", wrong)
	}
	w.cache.Close()
}

// nap forgets which subscriptions were woken, and woke reports which were woken since.
func (w *world) nap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.woken)
}

func (w *world) woke() map[*Subscription]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.woken)
}

func (w *world) join() {
	w.group = w.cache.Join("key", &corev3.Node{Id: "node"})
	w.feed = <-w.feeds
	w.all = make([]*Feed, len(w.cache.cfg.Streams))
	w.all[0] = w.feed
}

// stream is the feed of a stream with demand.
func (w *world) stream(i int) *Feed {
	for w.all[i] == nil || w.all[i].ctx.Err() != nil {
		f := <-w.feeds
		w.all[f.stream] = f
	}
	return w.all[i]
}

func (w *world) apply(typ *resource.Type, rs ...*resource.Resource) int {
	return w.feed.Apply(Update{Type: typ, Resources: rs})
}

func (w *world) remove(typ *resource.Type, names ...string) int {
	return w.feed.Apply(Update{Type: typ, Removed: names})
}

// res is a resource whose version is derived from its content.
func res(name, content string) *resource.Resource {
	return resource.New(resource.Resource{Name: name, Body: []byte(content)})
}

func versioned(name, content, version string) *resource.Resource {
	return resource.New(resource.Resource{Name: name, Body: []byte(content), Version: version})
}

func aliased(name, content string, aliases ...string) *resource.Resource {
	r := resource.Resource{Name: name, Body: []byte(content), Aliases: aliases}
	for _, a := range aliases {
		r.Extra = append(r.Extra, a+";"...) // as on the wire
	}
	return resource.New(r)
}

// client is a watcher with its position: the state of a downstream stream.
type client struct {
	table *Table
	w     Watcher
	at    Position
}

// Flush is for the pool, which these tests do not have.
func (c *client) Flush() {}

func (w *world) client(typ *resource.Type, wildcard bool, names ...string) *client {
	c := &client{table: w.group.Table(typ), at: Start}
	c.w.Client = c
	c.table.Replace(&c.w, wildcard, names)
	return c
}

// ask returns what has changed since the client's position, and moves it.
func (c *client) ask(t rapid.TB, q Query) Changes {
	t.Helper()
	q.Since = c.at
	got, err := c.table.Changes(&c.w, q)
	if err != nil {
		t.Fatalf("%v", err)
	}
	c.at = got.To
	return got
}

func (c *client) head() SubscriptionState { return c.table.State(&c.w) }

// said lists the names in an answer: resources, and removals after a minus.
func said(c Changes) []string {
	out := []string{}
	for _, r := range c.Resources {
		out = append(out, r.Name)
	}
	for _, n := range c.Removed {
		out = append(out, "-"+n)
	}
	return out
}

// equalValues compares; nil and empty lists are equal.
func equalValues(a, b any) bool {
	if x, ok := a.([]string); ok {
		return slices.Equal(x, b.([]string))
	}
	return a == b
}
