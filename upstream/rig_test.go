package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// rig is a cache that a control plane client keeps synchronized, seen by downstream clients.
type rig struct {
	t     xdstest.TB
	cp    *ControlPlane
	cache *cache.Cache
}

// memory connects everything in these tests, so that they can run in virtual time.
var memory = xdstest.NewMemory()

// inBubble runs a test in virtual time: events arrive before any timeout of the client under test,
// however busy the machine is.
func inBubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// fast is a configuration with short times.
func fast(delta bool, addresses ...string) ControlPlaneConfig {
	return ControlPlaneConfig{
		DialOptions: []grpc.DialOption{memory.Option()},
		Addresses:   addresses, Delta: delta, AbsentAfter: time.Minute,
		Backoff: Backoff{Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond},
	}
}

func newRig(t xdstest.TB, cfg ControlPlaneConfig) *rig {
	t.Helper()
	cp, err := NewControlPlane(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return newRigOf(t, cp, time.Minute)
}

func newRigOf(t xdstest.TB, cp *ControlPlane, linger time.Duration) *rig {
	t.Helper()
	route := func(t *resource.Type, name string) int {
		if !cp.Serves(t, name) {
			return cache.Nobody
		}
		return 0
	}
	c, err := cache.New(cache.Config{Run: cp.Run, Route: route, Wake: func([]*cache.Subscription) {}, Linger: linger})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		c.Close()
		cp.Close()
	})
	return &rig{t: t, cp: cp, cache: c}
}

// client is one downstream client of a key.
type client struct {
	rig      *rig
	group    *cache.Group
	watchers map[string]*cache.Watcher
	wants    map[string]map[string]bool // by type URL, names and "*"
}

func (r *rig) join(key string) *client {
	group := r.cache.Join(aggregation.Key(key), &corev3.Node{Id: "relay/" + key, Cluster: key})
	return &client{rig: r, group: group, watchers: make(map[string]*cache.Watcher), wants: make(map[string]map[string]bool)}
}

func (c *client) table(typeURL string) *cache.Table { return c.group.Table(resource.TypeOf(typeURL)) }

func (c *client) watcher(typeURL string) *cache.Watcher {
	w := c.watchers[typeURL]
	if w == nil {
		w = &cache.Watcher{}
		c.watchers[typeURL] = w
	}
	return w
}

// want subscribes to names; "*" is the wildcard.
func (c *client) want(typeURL string, names ...string) *client {
	if c.wants[typeURL] == nil {
		c.wants[typeURL] = make(map[string]bool)
	}
	for _, n := range names {
		c.wants[typeURL][resource.Canonical(n)] = true
	}
	c.table(typeURL).Edit(c.watcher(typeURL), editOf(names, nil))
	return c
}

func (c *client) drop(typeURL string, names ...string) *client {
	for _, n := range names {
		delete(c.wants[typeURL], resource.Canonical(n))
	}
	c.table(typeURL).Edit(c.watcher(typeURL), editOf(nil, names))
	return c
}

func editOf(add, remove []string) (e cache.Edit) {
	split := func(names []string) (plain []string, wild bool) {
		for _, n := range names {
			if n == xdstest.Wildcard {
				wild = true
				continue
			}
			plain = append(plain, n)
		}
		return plain, wild
	}
	e.Add, e.AddWildcard = split(add)
	e.Remove, e.RemoveWildcard = split(remove)
	return e
}

func (c *client) leave() {
	for u, w := range c.watchers {
		c.table(u).Leave(w)
	}
	clear(c.watchers)
	c.rig.cache.Leave(c.group)
}

// sees returns what the subscription of the client contains now.
func (c *client) sees(typeURL string) cache.Changes {
	got, err := c.table(typeURL).Changes(c.watcher(typeURL), cache.Query{Since: cache.Start, Scope: cache.FullState})
	if err != nil {
		c.rig.t.Errorf("changes of %s: %v", typeURL, err)
	}
	return got
}

// bodies returns what the client sees, by name.
func (c *client) bodies(typeURL string) map[string][]byte {
	out := make(map[string][]byte)
	for _, r := range c.sees(typeURL).Resources {
		out[r.Name] = r.Body
	}
	return out
}

// state returns what the client sees in one line: "a b -gone".
func (c *client) state(typeURL string) string {
	got := c.sees(typeURL)
	var words []string
	for _, r := range got.Resources {
		words = append(words, r.Name)
	}
	slices.Sort(words)
	for _, n := range got.Removed {
		words = append(words, "-"+n)
	}
	return strings.Join(words, " ")
}

// waitState waits until state is want.
func (c *client) waitState(typeURL, want string) {
	c.rig.t.Helper()
	var got string
	defer func() {
		if got != want {
			c.rig.t.Logf("the last state was %q, expected %q", got, want)
		}
	}()
	xdstest.Eventually(c.rig.t, fmt.Sprintf("state %q of %s", want, typeURL), func() bool {
		got = c.state(typeURL)
		return got == want
	})
}

func (c *client) waitUpstream(connected bool) {
	c.rig.t.Helper()
	xdstest.Eventually(c.rig.t, fmt.Sprintf("the upstream state connected=%v", connected), func() bool {
		u := c.group.Upstream()
		return u.Connected == connected && (connected || u.Err != nil)
	})
}

// variants runs f once for SotW and once for delta, in virtual time.
func variants(t *testing.T, f func(t *testing.T, delta bool)) {
	for _, v := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
		t.Run(v.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { f(t, v.Delta) })
		})
	}
}

// saw describes a request in one line: the names that it subscribes, "-" for those that it
// unsubscribes, and the versions that it lists.
func saw(r *xdstest.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", append(append([]string{}, r.Names...), r.Subscribe...))
	if len(r.Unsubscribe) > 0 {
		fmt.Fprintf(&b, " -%v", r.Unsubscribe)
	}
	if r.Version != "" {
		fmt.Fprintf(&b, " version=%s", r.Version)
	}
	if len(r.Initial) > 0 {
		fmt.Fprintf(&b, " held=%v", slices.Sorted(maps.Keys(r.Initial)))
	}
	if r.Nonce != "" {
		fmt.Fprintf(&b, " nonce=%s", r.Nonce)
	}
	if r.Error != nil {
		fmt.Fprintf(&b, " error=%d", r.Error.GetCode())
	}
	if r.Node != nil {
		b.WriteString(" node")
	}
	return b.String()
}

// expect receives the next request of a type and compares it with a line of saw.
func expect(t *testing.T, st *xdstest.OriginStream, typeURL, want string) *xdstest.Request {
	t.Helper()
	r := st.NextRequestOf(t, typeURL)
	if got := saw(r); got != want {
		t.Fatalf("request for %s: got %s, expected %s", typeURL, got, want)
	}
	return r
}

// either selects by variant.
func either(delta bool, whenDelta, whenSotW string) string {
	if delta {
		return whenDelta
	}
	return whenSotW
}
