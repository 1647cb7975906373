package store_test

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"xdsrelay/shard/store"
)

// TestName: different tags have different names, and all names of a tag are on one server of a
// cluster, whatever the tag contains.
func TestName(t *testing.T) {
	s, _ := open(t, "redis://localhost:1")
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringOf(rapid.SampledFrom([]rune("a%{}:7D"))).Draw(t, "a"), rapid.StringOf(rapid.SampledFrom([]rune("a%{}:7D"))).Draw(t, "b")
		if (a == b) != (s.Name(store.TierHead, a, "x") == s.Name(store.TierHead, b, "x")) {
			t.Fatalf("%q and %q: names %q and %q", a, b, s.Name(store.TierHead, a, "x"), s.Name(store.TierHead, b, "x"))
		}
		name := s.Name(store.TierHead, a, "x", "y")
		if !strings.HasPrefix(name, "test:{") || !strings.HasSuffix(name, "}:head:x:y") || hashed(name) == "" || hashed(name) != hashed(s.Name(store.MemberRecords, a)) {
			t.Fatalf("%q is called %q", a, name)
		}
	})
}

// hashed returns the part of a name that selects the server of a cluster.
func hashed(name string) string {
	_, rest, _ := strings.Cut(name, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

// TestShardedNames: sharded channels are on the server of the names with their tag, and have the
// names in docs/operate/redis.md.
func TestShardedNames(t *testing.T) {
	s, _ := open(t, "redis://127.0.0.1:1")
	page, err := os.ReadFile("../../docs/operate/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{s.ShardedChannel(store.HeadHints), s.ShardedPart(store.HeadHints, 7)} {
		if got, want := hashed(name), hashed(s.Name(store.HeadStamps, "heads")); got != want {
			t.Errorf("%s is where %q is, expected %q", name, got, want)
		}
		row := "| `" + strings.NewReplacer("test:", "PREFIX:", ":7", ":BUCKET").Replace(name) + "` | sharded channel |"
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/operate/redis.md has no row %s", row)
		}
	}
}
