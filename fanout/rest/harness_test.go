package rest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) {
	// The standard library lets a connection that it closes linger for half a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// Short names of the types that most tests use, and their paths.
const (
	cds = resource.ClusterURL
	eds = resource.EndpointURL
	lds = resource.ListenerURL
	rds = resource.RouteURL

	clusters  = "/v3/discovery:clusters"
	endpoints = "/v3/discovery:endpoints"
)

// headWait is how long a node counts as behind a tier head.
const headWait = 2 * time.Second

// quiet is how long a test waits to see that nothing happens.
const quiet = 100 * time.Millisecond

// world is a REST server whose control plane is the test itself.
type world struct {
	t       xdstest.TB
	srv     *Server
	cache   *cache.Cache
	network *xdstest.Memory // nil means TCP
	url     string
	client  *http.Client
	feeds   chan *cache.Feed // of each key, in the order of their first clients
	feed    *cache.Feed      // of the first key, once requested
}

// newWorld serves on a port. A poll waits long unless change sets Hold.
func newWorld(t xdstest.TB, change ...func(*Config)) *world {
	t.Helper()
	return newWorldOn(t, nil, change...)
}

// newWorldOn is newWorld in a network; nil means TCP.
func newWorldOn(t xdstest.TB, network *xdstest.Memory, change ...func(*Config)) *world {
	t.Helper()
	w := newSilentWorld(t, append([]func(*Config){hold(xdstest.PatienceHere())}, change...)...)
	w.network = network
	l, err := network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	served := make(chan error)
	go func() { served <- w.srv.Serve(l) }()
	transport := &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext:         func(ctx context.Context, _, addr string) (net.Conn, error) { return network.Dial(ctx, addr) },
	}
	w.url, w.client = "http://"+l.Addr().String(), &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.srv.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return w
}

// newSilentWorld has no port.
func newSilentWorld(t xdstest.TB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, feeds: make(chan *cache.Feed, 100)}
	pool := fanout.NewPool(2)
	var err error
	w.cache, err = cache.New(cache.Config{
		Wake:     pool.Wake,
		HeadWait: headWait,
		Run: func(ctx context.Context, f *cache.Feed) {
			w.feeds <- f
			<-ctx.Done()
		},
	})
	if err != nil {
		t.Fatalf("cache: %v", err)
	}
	rules, err := aggregation.Compile(nil, aggregation.Options{})
	if err != nil {
		t.Fatalf("rules: %v", err)
	}
	cfg := Config{Cache: w.cache, NodeName: "relay-1", Rules: func() *aggregation.Rules { return rules }}
	for _, c := range change {
		c(&cfg)
	}
	if w.srv, err = New(cfg); err != nil {
		t.Fatalf("server: %v", err)
	}
	t.Cleanup(func() {
		for _, wrong := range w.cache.Check() {
			t.Errorf("check: %s", wrong)
		}
		w.cache.Close()
		pool.Close()
	})
	return w
}

func hold(d time.Duration) func(*Config) { return func(c *Config) { c.Hold = d } }

// ask makes the body of a request of a client of the key "test-cluster".
func ask(version string, names ...string) string {
	body, err := protojson.Marshal(&discoveryv3.DiscoveryRequest{
		Node: xdstest.Node("test-client", "test-cluster"), VersionInfo: version, ResourceNames: names,
	})
	if err != nil {
		panic(err) // only for a broken test
	}
	return string(body)
}

// reply is an answer as a client sees it.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// post sends a body and returns the reply.
func (w *world) post(path, body string) *reply {
	w.t.Helper()
	return w.do(http.MethodPost, path, strings.NewReader(body))
}

func (w *world) do(method, path string, body io.Reader) *reply {
	w.t.Helper()
	r, err := w.try(context.Background(), method, path, body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (w *world) try(ctx context.Context, method, path string, body io.Reader) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, body)
	if err != nil {
		return nil, err
	}
	res, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return &reply{res.StatusCode, res.Header, data}, err
}

// background sends a body and delivers the reply on a channel.
func (w *world) background(path, body string) <-chan *reply {
	done := make(chan *reply, 1)
	go func() {
		r, err := w.try(context.Background(), http.MethodPost, path, strings.NewReader(body))
		if err != nil {
			w.t.Errorf("POST %s: %v", path, err)
		}
		done <- r
	}()
	return done
}

// waiting is background for a request that must wait for a change; it returns once the server holds
// the given number of polls.
func (w *world) waiting(n int, path, body string) <-chan *reply {
	w.t.Helper()
	done := w.background(path, body)
	w.watched(n)
	return done
}

// watched waits until the given number of polls is subscribed.
func (w *world) watched(n int) {
	w.t.Helper()
	xdstest.Eventually(w.t, "the polls to wait", func() bool {
		got := 0
		for _, g := range w.cache.GroupInfos() {
			for _, t := range g.Tables {
				got += t.Watchers
			}
		}
		return got == n
	})
}

// arrives waits for a reply of the background.
func (w *world) arrives(done <-chan *reply) *reply {
	w.t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(xdstest.Patience):
		w.t.Fatalf("no answer came")
		return nil
	}
}

// silent fails the test if a reply arrives within the quiet time.
func (w *world) silent(done <-chan *reply) {
	w.t.Helper()
	select {
	case r := <-done:
		w.t.Fatalf("an answer came: %d %s", r.status, r.body)
	case <-time.After(quiet):
	}
}

// has fails the test unless the reply is 200 with exactly these resources, and returns the version.
func (w *world) has(r *reply, names ...string) string {
	w.t.Helper()
	m := w.message(r)
	got := []string{}
	for _, a := range m.Resources {
		inner, err := a.UnmarshalNew()
		if err != nil {
			w.t.Fatalf("a resource cannot be decoded: %v", err)
		}
		if a.TypeUrl != m.TypeUrl { // A1, B30
			w.t.Fatalf("a %s in a response of %s", a.TypeUrl, m.TypeUrl)
		}
		got = append(got, xdstest.NameOf(inner))
	}
	slices.Sort(got)
	if !slices.Equal(got, names) || m.VersionInfo == "" {
		w.t.Fatalf("expected the resources %v, got %s", names, r.body)
	}
	return m.VersionInfo
}

// message returns the DiscoveryResponse of a reply.
func (w *world) message(r *reply) *discoveryv3.DiscoveryResponse {
	w.t.Helper()
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/json" {
		w.t.Fatalf("expected 200 with JSON, got %d %v %s", r.status, r.header, r.body)
	}
	m := &discoveryv3.DiscoveryResponse{}
	if err := protojson.Unmarshal(r.body, m); err != nil {
		w.t.Fatalf("the answer is no DiscoveryResponse: %v: %s", err, r.body)
	}
	return m
}

// fails checks the status of an error, and that its text contains all the words.
func (w *world) fails(r *reply, status int, words ...string) {
	w.t.Helper()
	if r.status != status || r.header.Get("Content-Type") != "application/json" {
		w.t.Fatalf("expected %d, got %d %v %s", status, r.status, r.header, r.body)
	}
	for _, word := range append(words, `"code":`, `"message":`) {
		if !bytes.Contains(r.body, []byte(word)) {
			w.t.Errorf("%s lacks %q", r.body, word)
		}
	}
}

// unchanged checks that the reply is 304, which has no body.
func (w *world) unchanged(r *reply) {
	w.t.Helper()
	if r.status != http.StatusNotModified || len(r.body) > 0 {
		w.t.Fatalf("expected 304, got %d %s", r.status, r.body)
	}
}

// origin returns the feed of the first key that got a client.
func (w *world) origin() *cache.Feed {
	w.t.Helper()
	if w.feed == nil {
		select {
		case w.feed = <-w.feeds:
		case <-time.After(xdstest.Patience):
			w.t.Fatalf("no client made the relay ask its origin")
		}
	}
	return w.feed
}

// asked waits until exactly these names of a type are subscribed upstream ("*" for the wildcard),
// and takes that demand like an upstream stream.
func (w *world) asked(typeURL string, names ...string) {
	w.t.Helper()
	f := w.origin()
	xdstest.Eventually(w.t, "the demand to be as expected", func() bool {
		for _, d := range f.TakeDemand(true, true) {
			if d.Table.Type.URL != typeURL {
				continue
			}
			got := slices.Clone(d.Names)
			if d.Wildcard {
				got = append(got, "*")
			}
			slices.Sort(got)
			return slices.Equal(got, slices.Sorted(slices.Values(names)))
		}
		return len(names) == 0
	})
}

// serve applies a response of a SotW control plane: the full state of a type.
func (w *world) serve(version, typeURL string, ms ...proto.Message) {
	w.t.Helper()
	u := cache.Update{Type: resource.TypeOf(typeURL), Version: version, Source: "cp-1", Resources: resources(w.t, ms...)}
	u.Full = u.Type.FullState
	w.origin().Apply(u)
}

// change applies a response of a delta control plane.
func (w *world) change(typeURL string, removed []string, ms ...proto.Message) {
	w.t.Helper()
	w.origin().Apply(cache.Update{Type: resource.TypeOf(typeURL), Resources: resources(w.t, ms...), Removed: removed, Source: "cp-1"})
}

// known makes all content of a type known: it is subscribed, and the control plane has answered.
func (w *world) known(path string, ms ...proto.Message) {
	w.t.Helper()
	typ := w.srv.types[path]
	var names []string
	for _, m := range ms {
		names = append(names, xdstest.NameOf(m))
	}
	group, err := w.srv.cfg.Rules().Resolve(xdstest.Node("other", "test-cluster"), aggregation.Peer{})
	if err != nil {
		w.t.Fatalf("resolve: %v", err)
	}
	g := w.cache.Join(group.Key, group.Node)
	defer w.cache.Leave(g)
	other := cache.Watcher{Client: &poll{}}
	g.Table(typ).Replace(&other, typ.Wildcard, names)
	defer g.Table(typ).Leave(&other)
	w.origin().TakeDemand(true, true)
	w.serve("v1", typ.URL, ms...)
}

func resources(t xdstest.TB, ms ...proto.Message) (out []*resource.Resource) {
	t.Helper()
	for _, m := range ms {
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(xdstest.Any(m))
		if err != nil {
			t.Fatalf("marshal: %v", err)
		}
		out = append(out, resource.New(resource.Resource{Name: xdstest.NameOf(m), Body: body}))
	}
	return out
}

// cluster returns a cluster whose content depends on v.
func cluster(name string, v int) proto.Message {
	return xdstest.Cluster(name, time.Duration(v+1)*time.Second)
}

// endpointsOf returns endpoints whose content depends on v.
func endpointsOf(name string, v int) proto.Message {
	return xdstest.Synthetic(eds, name, v)
}
