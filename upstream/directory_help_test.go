package upstream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/goccy/go-yaml"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// dirBed is a directory origin with a cache on top of it.
type dirBed struct {
	t      *testing.T
	root   string
	dir    *Directory
	cache  *cache.Cache
	log    *lockedBuffer
	reader *sdkmetric.ManualReader
}

// lockedBuffer is a buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// serveDir starts a directory origin on root.
func serveDir(t *testing.T, root string, with ...func(*DirectoryConfig)) *dirBed {
	t.Helper()
	b := &dirBed{t: t, root: root, log: &lockedBuffer{}, reader: sdkmetric.NewManualReader()}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader))
	cfg := DirectoryConfig{
		Path: root, Settle: 5 * time.Millisecond,
		Meter: meters.Meter("test"), Logger: slog.New(slog.NewTextHandler(b.log, nil)),
	}
	for _, f := range with {
		f(&cfg)
	}
	var err error
	if b.dir, err = NewDirectory(cfg); err != nil {
		t.Fatal(err)
	}
	b.start()
	return b
}

// start creates a cache on top of b.dir.
func (b *dirBed) start() {
	var err error
	if b.cache, err = cache.New(cache.Config{Run: b.dir.Run, Wake: func([]*cache.Subscription) {}}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		b.cache.Close()
		b.dir.Close()
	})
}

// fileErrors returns how often invalid files were counted.
func (b *dirBed) fileErrors() (n int64) {
	var rm metricdata.ResourceMetrics
	if err := b.reader.Collect(context.Background(), &rm); err != nil {
		b.t.Fatal(err)
	}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == "xdsrelay.directory.file_errors" {
				for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
					n += p.Value
				}
			}
		}
	}
	return n
}

// dirView is what a client of a key sees of a type.
type dirView struct {
	t     *testing.T
	group *cache.Group
	table *cache.Table
	watch *cache.Watcher
}

// view subscribes a new client to names, or to everything.
func (b *dirBed) view(key aggregation.Key, typeURL string, names ...string) *dirView {
	b.t.Helper()
	g := b.cache.Join(key, &corev3.Node{Id: string(key)})
	v := &dirView{t: b.t, group: g, table: g.Table(resource.TypeOf(typeURL)), watch: &cache.Watcher{}}
	v.table.Replace(v.watch, len(names) == 0, names)
	return v
}

func (v *dirView) changes() cache.Changes {
	v.t.Helper()
	c, err := v.table.Changes(v.watch, cache.Query{Since: cache.Start, Scope: cache.FullState})
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

// versions returns the versions of all resources by name.
func (v *dirView) versions() map[string]string {
	out := make(map[string]string)
	for _, r := range v.changes().Resources {
		out[r.Name] = r.Version
	}
	return out
}

func (v *dirView) names() []string { return slices.Sorted(maps.Keys(v.versions())) }

// shows waits until the client has exactly names, and knows that these are all.
func (v *dirView) shows(names ...string) {
	v.t.Helper()
	slices.Sort(names)
	xdstest.Eventually(v.t, fmt.Sprintf("exactly %q", names), func() bool {
		return v.changes().Known && slices.Equal(v.names(), names)
	})
}

// body returns the encoded Any of a resource, "" if there is none.
func (v *dirView) body(name string) string {
	for _, r := range v.changes().Resources {
		if r.Name == name {
			return string(r.Body)
		}
	}
	return ""
}

// showsBody waits until the client has m as name.
func (v *dirView) showsBody(name string, m proto.Message) {
	v.t.Helper()
	want := anyBytes(v.t, m)
	xdstest.Eventually(v.t, "another "+name, func() bool { return v.body(name) == want })
}

func anyBytes(t *testing.T, m proto.Message) string {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(xdstest.Any(m))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// answer makes a DiscoveryResponse of resources of one type.
func answer(version string, ms ...proto.Message) *discoveryv3.DiscoveryResponse {
	r := &discoveryv3.DiscoveryResponse{VersionInfo: version, TypeUrl: xdstest.TypeOf(ms[0])}
	for _, m := range ms {
		r.Resources = append(r.Resources, xdstest.Any(m))
	}
	return r
}

// encode writes a message in the format of an extension.
func encode(t testing.TB, ext string, r proto.Message) []byte {
	t.Helper()
	var b []byte
	var err error
	switch ext {
	case ".pb", ".bin":
		b, err = proto.Marshal(r)
	case ".json":
		b, err = protojson.Marshal(r)
	case ".yaml", ".yml":
		if b, err = (protojson.MarshalOptions{UseProtoNames: true}).Marshal(r); err == nil {
			b, err = yaml.JSONToYAML(b)
		}
	default:
		b, err = prototext.MarshalOptions{Multiline: true}.Marshal(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// put creates a file elsewhere and moves it to path, so that it appears as a whole: tests that
// count errors must not see half of it.
func put(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(filepath.Dir(path), ".new")
	write(t, hidden, content)
	if err := os.Rename(hidden, path); err != nil {
		t.Fatal(err)
	}
}

// write writes a file in place.
func write(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// putResponse writes resources of one type to a file, in its format.
func putResponse(t testing.TB, path string, ms ...proto.Message) {
	t.Helper()
	put(t, path, encode(t, filepath.Ext(path), answer("", ms...)))
}

// moveOnto replaces path by a file from another directory.
func moveOnto(t testing.TB, path string, content []byte) {
	t.Helper()
	tmp := filepath.Join(t.TempDir(), "new")
	write(t, tmp, content)
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

// mention fails the test unless err has all parts.
func mention(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, expected one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error %q lacks %q", err, p)
		}
	}
}
