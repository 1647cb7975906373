package lastgood

import (
	"bytes"
	"crypto/rand"
	"errors"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// openRedis creates a store in a server, in which a key is claimed by epoch.
func openRedis(t *testing.T, url string, mode store.Mode, epoch *uint64) (*Redis, *store.Store) {
	t.Helper()
	s, err := store.New(store.Config{URL: url, Mode: mode, Prefix: "test", Timeout: patience, Logger: new(logs).logger(), Meter: noop.Meter{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return NewRedis(s, 16<<20, func(string) (uint64, bool) { return *epoch, *epoch > 0 }), s
}

// TestRedis: records are found again by key, however large, and removed; other keys have others.
func TestRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	epoch := uint64(7)
	r, _ := openRedis(t, server.URL(), store.Standalone, &epoch)
	large := make([]byte, 2*partSize) // a multiple of the part size
	_, _ = rand.Read(large)
	key := "a key {with} braces: and more"
	for url, sealed := range map[string][]byte{"x": []byte("1"), "y": large} {
		if err := r.Save(t.Context(), key, url, "mark-"+url, sealed); err != nil {
			t.Fatal(err)
		}
	}
	got := loaded(t, r, key)
	want := []string{"1", string(large)}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %d records, or others", len(got))
	}
	marks, err := r.Marks(t.Context(), key)
	if err != nil || len(marks) != 2 || marks["x"].Text != "mark-x" || marks["x"].At.IsZero() {
		t.Errorf("got %v, %v", marks, err)
	}
	if got := loaded(t, r, "other"); len(got) > 0 {
		t.Errorf("another key has %d records", len(got))
	}
	if err := r.Save(t.Context(), key, "y", "", nil); err != nil {
		t.Fatal(err)
	}
	if got := loaded(t, r, key); !slices.Equal(got, []string{"1"}) {
		t.Errorf("got %d records", len(got))
	}
	server.Do("DEL", r.recordName(key, "x")) // like an eviction
	if marks, err := r.Marks(t.Context(), key); err != nil || len(marks) != 0 {
		t.Errorf("a record that is gone counts as written: %v, %v", marks, err)
	}
	if err := r.Save(t.Context(), key, "x", "mark-x", []byte("1")); err != nil {
		t.Fatal(err)
	}
	for _, name := range server.Do("KEYS", "*").([]any) {
		if ttl := server.Do("PTTL", name).(int64); ttl <= 0 || ttl > keptFor.Milliseconds() {
			t.Errorf("%s is kept for %d ms", name, ttl)
		}
	}
	r.max = partSize // a larger one is from another program
	if err := r.Save(t.Context(), key, "y", "m", large); err != nil {
		t.Fatal(err)
	}
	if got := loaded(t, r, key); slices.ContainsFunc(got, func(s string) bool { return len(s) > partSize }) {
		t.Error("a record that is too large was read")
	}
}

// TestRedisFence: a node that does not own a key any more cannot replace what the next owner has
// written, nor an older write a newer one.
func TestRedisFence(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	epoch := uint64(0)
	r, s := openRedis(t, server.URL(), store.Standalone, &epoch)
	write := func(as uint64, text string) error {
		epoch = as
		return r.Save(t.Context(), "key", "x", "m", []byte(text))
	}
	expect := func(text string) {
		t.Helper()
		if got := loaded(t, r, "key"); !slices.Equal(got, []string{text}) {
			t.Errorf("got %q, expected %q", got, text)
		}
	}
	if err := write(0, "0"); !errors.Is(err, errUnclaimed) {
		t.Errorf("before a claim: %v", err)
	}
	if err := write(5, "5"); err != nil {
		t.Fatal(err)
	}
	if err := write(6, "6"); err != nil {
		t.Fatal(err)
	}
	if err := write(5, "5 again"); !errors.Is(err, errFenced) {
		t.Errorf("of an older epoch: %v", err)
	}
	if err := write(5, ""); !errors.Is(err, errFenced) {
		t.Errorf("of an older epoch: %v", err)
	}
	expect("6")
	server.Do("HSET", s.Name(store.TierHead, "key"), "epoch", "8")
	if err := write(7, "7"); !errors.Is(err, errFenced) {
		t.Errorf("claimed by somebody else: %v", err)
	}
	if err := write(8, "8"); err != nil {
		t.Fatal(err)
	}
	expect("8")
	// A write that was sent before the last one arrives after it.
	late, err := s.Run(t.Context(), save, []string{s.Name(store.TierHead, "key"), r.marksName("key"), r.recordName("key", "x")}, 8, 1, "x", "8 1 m", "late", 1000)
	if n, _ := late.Int(); err != nil || n != 0 {
		t.Errorf("a late write: %v, %v", n, err)
	}
	expect("8")
}

// TestRedisFaults: emptied, read-only, with values of another type: calls fail or find nothing, and
// nothing else happens.
func TestRedisFaults(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	epoch := uint64(7)
	r, s := openRedis(t, server.URL(), store.Standalone, &epoch)
	if err := r.Save(t.Context(), "key", "x", "m", []byte("1")); err != nil {
		t.Fatal(err)
	}
	server.Do("HSET", r.marksName("key"), "junk", "a b", "more", "1 x m", "gone", "1 2 m")
	if got := loaded(t, r, "key"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("got %q", got)
	}
	for _, number := range []string{"18446744073709551615", "9007199254740993", "inf"} { // no node can have written these
		server.Do("HSET", r.marksName("key"), "x", number+" "+number+" m")
		server.Do("HSET", s.Name(store.TierHead, "key"), "epoch", number)
		if err := r.Save(t.Context(), "key", "x", "m", []byte("1")); err != nil {
			t.Errorf("over %s: %v", number, err)
		}
	}
	server.Flush()
	if got := loaded(t, r, "key"); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	server.Do("SET", s.Name(store.LastGoodMarks, "key"), "a string")
	if err := r.Load(t.Context(), "key", func([]byte) { t.Error("found something") }); err == nil {
		t.Error("expected an error of what is no hash")
	}
	if err := r.Save(t.Context(), "key", "x", "m", []byte("1")); err == nil {
		t.Error("written into what is no hash")
	}
}

// TestRedisCluster: all names of a key in a script are on one server.
func TestRedisCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	epoch := uint64(7)
	r, _ := openRedis(t, cluster.URL(), store.Cluster, &epoch)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		if err := r.Save(t.Context(), key, clusters.URL, "m", []byte(key)); err != nil {
			t.Fatal(err)
		}
		if got := loaded(t, r, key); !slices.Equal(got, []string{key}) {
			t.Errorf("got %q", got)
		}
	}
}

// TestRedisSecrets: the values in Redis reveal nothing of a secret.
func TestRedisSecrets(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	epoch := uint64(7)
	r, s := openRedis(t, server.URL(), store.Standalone, &epoch)
	sealer := newTestSealer(t, "test", openKeys(t, keysFile(t, newKey("a"))))
	k := sample()
	k.Type = secrets
	k.Resources[0].Resource, k.Resources[1].Resource = res(secrets, "CANARY-name", "CANARY-1"), res(secrets, "b", "CANARY-2")
	sealed, err := sealer.seal("key", secrets.URL, Encode("key", at, k))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Save(t.Context(), "key", secrets.URL, "m", sealed); err != nil {
		t.Fatal(err)
	}
	raw, err := s.Get(t.Context(), r.recordName("key", secrets.URL))
	if err != nil || len(raw) == 0 || bytes.Contains(raw, []byte("CANARY")) {
		t.Errorf("%d bytes, %v: nothing, or a secret in the clear", len(raw), err)
	}
	if bytes.Contains(raw, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		t.Error("something compressed stands there in the clear")
	}
}
