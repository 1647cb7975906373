package amplify

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/store"
)

// parts are texts of about so many bytes, which are divided at blanks.
var parts = []query{
	{"one huge text", func(size int) string { return strings.Repeat("x", size) }},
	{"many numbers", func(size int) string { return strings.Repeat("1", size) }},
	{"many entries", func(size int) string { return strings.Repeat("1 ", size/2) }},
	{"many empty entries", func(size int) string { return strings.Repeat(" ", size) }},
}

// headRows are the rows of what Redis has of a key.
func (v *vault) headRows(t *testing.T, all bool) (rows []row) {
	t.Helper()
	add := func(field, pattern string, fill func(size int) []any) {
		rows = append(rows, row{surface: "Redis", message: store.TierHead.String(), field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			pairs := fill(size)
			v.visit(t, func(key, text string) {
				v.hset(v.store.Name(store.TierHead, key), append(pairs, text, "x"))
			})
			return length(pairs)
		}})
	}
	ofType := "type/" + content.ClusterURL
	for _, p := range parts {
		add("(value)", p.name, func(size int) []any { return []any{ofType, p.fill(size)} })
		add("(field)", p.name, func(size int) []any { return []any{"type/" + p.fill(size), v.head} })
		add("epoch", p.name, func(size int) []any { return []any{"epoch", p.fill(size)} })
	}
	add("(field)", "many entries", func(size int) (pairs []any) {
		for i := 0; length(pairs) < size; i++ {
			pairs = append(pairs, fmt.Sprint("type/", i), v.head)
		}
		return pairs
	})
	numbers, object := v.headParts(t)
	spoiled(objectOf(t, object), all, func(field, pattern string, fill func(int) string) {
		add(field, pattern, func(size int) []any { return []any{ofType, numbers + fill(size)} })
	})
	return rows
}

// headParts are a head's epoch and generation, and its JSON.
func (v *vault) headParts(t *testing.T) (numbers, object string) {
	t.Helper()
	at := strings.Index(v.head, "{")
	if at < 0 {
		t.Fatalf("the node writes a head like %q, expected JSON in it", v.head)
	}
	return v.head[:at], v.head[at:]
}

// stamp says that stamps have changed until the node was sent that: the node says so of its
// own, too, when others use it.
func (v *vault) stamp(t *testing.T, name, last string, seen <-chan struct{}) {
	t.Helper()
	deadline := time.After(xdstest.Patience)
	for {
		v.hset(name, []any{"any", last})
		select {
		case <-seen:
			return
		case <-time.After(time.Second):
		case <-deadline:
			t.Fatal("the node does not read the stamps in Redis")
		}
	}
}

// stampRows are the rows of the stamps of heads.
func (v *vault) stampRows(*testing.T, bool) (rows []row) {
	name := v.store.Name(store.HeadStamps, "heads")
	add := func(field, pattern string, fill func(size int) []any) {
		rows = append(rows, row{surface: "Redis", message: store.HeadStamps.String(), field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			pairs, last := fill(size), v.marker()
			seen := v.tap.expect(last)
			v.hset(name, pairs)
			v.stamp(t, name, last, seen)
			v.redis.Do("DEL", name)
			return length(pairs)
		}})
	}
	for _, p := range parts {
		add("(value)", p.name, func(size int) []any { return []any{"1", p.fill(size)} })
		add("(field)", p.name, func(size int) []any { return []any{p.fill(size), "x"} })
	}
	add("(field)", "many entries", func(size int) (pairs []any) {
		for i := 0; length(pairs) < size; i++ {
			pairs = append(pairs, fmt.Sprint(i), "x")
		}
		return pairs
	})
	return rows
}

// headHintRows are the rows of hints about heads, of this version and of earlier ones.
func (v *vault) headHintRows(_ *testing.T, all bool) (rows []row) {
	earlier := map[string]json.RawMessage{"key": json.RawMessage(quoted(fleetKey)), "type": json.RawMessage(quoted(content.ClusterURL)), "head": json.RawMessage(quoted(v.head))}
	channel := v.store.Channel(store.HeadHints)
	spoiled(earlier, all, func(field, pattern string, fill func(int) string) {
		rows = append(rows, v.hintRow(store.HeadHints, channel, field, pattern, fill))
	})
	for _, p := range parts {
		rows = append(rows, v.hintRow(store.HeadHints, v.channel, "(hint)", p.name, p.fill))
	}
	for _, p := range jsonValues(all) {
		rows = append(rows, v.hintRow(store.HeadHints, v.channel, "keys", p.name, func(size int) string { return "x y " + p.fill(size) }))
	}
	return rows
}
