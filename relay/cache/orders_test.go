package cache

import (
	"encoding/json"
	"testing"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache/gate"
	"xdsrelay/relay/resource"
)

// TestOrders: each order changes what it is about, and leaves the value that it is applied to as it is.
func TestOrders(t *testing.T) {
	f, u := Freeze{Reason: "f"}, &Undone{Freeze: Freeze{Reason: "u"}}
	some := Orders{}.WithFreeze("a", f).WithUndone("b", u)
	for _, tt := range []struct {
		name   string
		orders Orders
		want   string
		holds  bool // the key a
	}{
		{"none", Orders{}, `{}`, false},
		{"a key", Orders{}.WithFreeze("a", f), `{"keys":{"a":"f"}}`, true},
		{"all keys", some.WithFreeze("", f), `{"all":"f","keys":{"a":"f"},"undone":{"b":"u"}}`, true},
		{"again", some.WithFreeze("a", Freeze{Reason: "g"}), `{"keys":{"a":"g"},"undone":{"b":"u"}}`, true},
		{"undone besides", some.WithUndone("a", u), `{"keys":{"a":"f"},"undone":{"a":"u","b":"u"}}`, true},
		{"undone no more", some.WithUndone("b", nil), `{"keys":{"a":"f"}}`, true},
		{"without a key", some.WithUndone("a", u).Without("a"), `{"undone":{"b":"u"}}`, false},
		{"without all keys", some.WithFreeze("", f).Without(""), `{"keys":{"a":"f"},"undone":{"b":"u"}}`, true},
		{"without anything", Orders{}.Without("a"), `{}`, false},
	} {
		short := make(map[string]any)
		if tt.orders.All != nil {
			short["all"] = tt.orders.All.Reason
		}
		reasons := make(map[aggregation.Key]string)
		for key, one := range tt.orders.Keys {
			reasons[key] = one.Reason
		}
		if len(reasons) > 0 {
			short["keys"] = reasons
		}
		reasons = make(map[aggregation.Key]string)
		for key, one := range tt.orders.Undone {
			reasons[key] = one.Reason
		}
		if len(reasons) > 0 {
			short["undone"] = reasons
		}
		if text, _ := json.Marshal(short); string(text) != tt.want || tt.orders.Holds("a") != tt.holds || tt.orders.IsZero() != (tt.want == "{}") {
			t.Errorf("%s: %s, holds a: %t", tt.name, text, tt.orders.Holds("a"))
		}
	}
	if len(some.Keys) != 1 || len(some.Undone) != 1 || some.All != nil {
		t.Errorf("the value has changed: %+v", some)
	}
}

// TestFollow: the cache follows orders from elsewhere, for keys that it has and for later ones. An order that
// stays is left alone, and content that another node decides about passes.
func TestFollow(t *testing.T) {
	w := start(t, Config{HistoryBytes: 1 << 20})
	c := w.client(clusters, true)
	w.full(clusters, "1", res("a", "1"))
	c.gets(t, "the first content", "a")
	key := w.group.Key
	state := func(want gate.State) {
		t.Helper()
		if is, _, _ := w.group.Gate(); is != want {
			t.Errorf("the key is %v, expected %v", is, want)
		}
	}
	since := time.Now()
	frozen := Orders{}.WithFreeze(key, Freeze{Reason: "test", Since: since})
	w.cache.Follow(frozen)
	state(gate.Frozen)
	w.full(clusters, "2", res("a", "2"))
	c.gets(t, "frozen")
	w.cache.Follow(frozen.WithFreeze("", Freeze{Reason: "all"}).Without(key))
	state(gate.Frozen)
	c.gets(t, "all frozen")
	if n := w.cache.Follow(Orders{}); n != 1 {
		t.Errorf("%d changes", n)
	}
	state(gate.Open)
	c.gets(t, "released", "a")

	if _, n, err := w.cache.Undo(key, Freeze{Reason: "test", Since: since}); err != nil || n != 1 {
		t.Fatalf("%d changes, %v", n, err)
	}
	c.gets(t, "undone", "a")
	text, err := json.Marshal(w.cache.Orders())
	if err != nil {
		t.Fatal(err)
	}
	before := w.cache.Orders().Undone[key]
	var again Orders
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	w.cache.Follow(again)
	state(gate.Undone)
	if w.cache.Orders().Undone[key] != before {
		t.Error("the order was replaced by itself")
	}
	w.full(clusters, "2", res("a", "2"))
	c.gets(t, "undone still")

	other := start(t, Config{HistoryBytes: 1 << 20}) // a node that gets the content from this one
	d := other.client(clusters, true)
	other.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("a", "1")}, Full: true, Mirror: &Mirror{}})
	d.gets(t, "the content of the owner", "a")
	other.cache.Follow(again)
	other.full(clusters, "2", res("a", "2")) // it owns the key now
	d.gets(t, "what was undone is held back")
	for _, w := range []*world{w, other} {
		for _, wrong := range w.cache.Check() {
			t.Error(wrong)
		}
	}
}
