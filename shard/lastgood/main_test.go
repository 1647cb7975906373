package lastgood

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	clusters  = resource.TypeOf(resource.ClusterURL)
	listeners = resource.TypeOf(resource.ListenerURL)
	secrets   = resource.TypeOf(resource.SecretURL)
)

// patience is how long an operation may take that takes moments on an idle machine.
const patience = time.Minute

// logs is what was logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logs) count(text string) int { return strings.Count(l.String(), text) }

// newKey returns a line of a keys file.
func newKey(id string) string {
	key := make([]byte, keySize)
	_, _ = rand.Read(key)
	return id + ":" + base64.StdEncoding.EncodeToString(key) + "\n"
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// keysFile writes a file of keys.
func keysFile(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	writeFile(t, path, strings.Join(lines, ""))
	return path
}

func openKeys(t testing.TB, path string) *Keys {
	t.Helper()
	keys, err := NewKeys(path, new(logs).logger())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// body returns an Any of a type whose first field is the name.
func body(typ *resource.Type, name, more string) []byte {
	inner := appendText(nil, 1, name)
	inner = appendText(inner, 28, more) // of a cluster the name for statistics
	return appendBytes(appendText(nil, 1, typ.URL), 2, inner)
}

func res(typ *resource.Type, name, more string) *resource.Resource {
	return resource.New(resource.Resource{Name: name, Body: body(typ, name, more)})
}

// memory is a store in memory that can fail.
type memory struct {
	mu      sync.Mutex
	records map[string]map[string][]byte // guarded by mu: by key and type
	marks   map[string]map[string]Mark   // guarded by mu
	err     error                        // guarded by mu: of every call, also of a Save that succeeds
	lose    bool                         // guarded by mu: a Save that fails has no effect
	saves   int                          // guarded by mu
}

func newMemory() *memory {
	return &memory{records: make(map[string]map[string][]byte), marks: make(map[string]map[string]Mark)}
}

func (m *memory) Save(_ context.Context, key, url, mark string, sealed []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.saves++; m.err != nil && m.lose {
		return m.err
	}
	if m.records[key] == nil {
		m.records[key], m.marks[key] = make(map[string][]byte), make(map[string]Mark)
	}
	if sealed == nil {
		delete(m.records[key], url)
		delete(m.marks[key], url)
		return m.err
	}
	m.records[key][url], m.marks[key][url] = slices.Clone(sealed), Mark{mark, time.Now()}
	return m.err
}

func (m *memory) Marks(_ context.Context, key string) (map[string]Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]Mark)
	maps.Copy(all, m.marks[key])
	return all, m.err
}

func (m *memory) Load(_ context.Context, key string, take func([]byte)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	for _, sealed := range m.records[key] {
		take(sealed)
	}
	return nil
}

// fail makes all calls fail; writes still take effect unless lose is set. nil ends that.
func (m *memory) fail(err error, lose bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err, m.lose = err, lose
}

func (m *memory) record(key, url string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[key][url]
}

func (m *memory) mark(key, url string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[key][url].Text
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// sample is a Kept with all possible content.
func sample() cache.Snapshot {
	return cache.Snapshot{
		Type: clusters, Wildcard: true, Globs: []string{"xdstp://a/envoy.config.cluster.v3.Cluster/*"},
		Streams: []cache.SnapshotStream{
			{OriginStream: cache.OriginStream{Origin: "default"}, Server: "127.0.0.1:1", Version: "v1", Source: "cp"},
			{OriginStream: cache.OriginStream{Origin: "default", Names: true}},
		},
		Resources: []cache.SnapshotResource{
			{Resource: res(clusters, "a", "1"), Streams: 1, Errored: true},
			{Resource: resource.New(resource.Resource{Name: "b", Version: "7", Body: body(clusters, "b", "2")}), Streams: 3, Expires: time.UnixMilli(1_900_000_000_000)},
		},
	}
}

func sameKept(t testing.TB, got, want cache.Snapshot) {
	t.Helper()
	if got.Type != want.Type || got.Wildcard != want.Wildcard || !slices.Equal(got.Globs, want.Globs) || !slices.Equal(got.Streams, want.Streams) || len(got.Resources) != len(want.Resources) {
		t.Fatalf("got %+v, expected %+v", got, want)
	}
	for i, g := range got.Resources {
		w := want.Resources[i]
		if g.Streams != w.Streams || g.Errored != w.Errored || !g.Expires.Equal(w.Expires) || g.Resource.Name != w.Resource.Name || g.Resource.Version != w.Resource.Version || !g.Resource.SameContent(w.Resource) || g.Resource.Key != w.Resource.Key {
			t.Fatalf("resource %d is %+v, expected %+v", i, g, w)
		}
	}
}
