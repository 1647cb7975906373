package cache

import (
	"encoding/json"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
)

// content is a resource as on the wire.
func content(name, text string) *resource.Resource {
	body, err := proto.Marshal(&anypb.Any{TypeUrl: clusters.URL, Value: []byte("\n\x01" + name + "\xe2\x01\x01" + text)})
	if err != nil {
		panic(err)
	}
	return res(name, string(body))
}

// getsAll fails unless a client is sent exactly this, in any order.
func (c *client) getsAll(t *testing.T, what string, want ...string) {
	t.Helper()
	if names := slices.Sorted(slices.Values(said(c.ask(t, Query{})))); !slices.Equal(names, want) {
		t.Errorf("%s: a client is sent %q, expected %q", what, names, want)
	}
}

// TestFormer: what a revision has replaced brings clients back to it, also on a node that has it from another
// one. Names that have changed since stay as they are.
func TestFormer(t *testing.T) {
	for _, shared := range []bool{false, true} {
		w := start(t, Config{})
		w.group.Govern(&Governor{Types: map[string]bool{clusters.URL: true}, Changed: func(*Group) {}})
		c := w.client(clusters, true)
		w.full(clusters, "1", content("a", "1"), content("b", "1"), content("c", "1"))
		c.getsAll(t, "the first content", "a", "b", "c")
		w.full(clusters, "2", content("a", "2"), content("c", "2"), content("d", "2"))
		o := w.group.CutOverlay()
		w.group.Promote(o, CausePromoted)
		c.getsAll(t, "the revision", "-b", "a", "c", "d")
		w.full(clusters, "3", content("a", "2"), content("c", "3"), content("d", "2"))
		w.group.Promote(w.group.CutOverlay(), CausePromoted)
		c.getsAll(t, "a later one", "c")
		f := o.Former()
		if shared {
			text, err := json.Marshal(f.Share())
			if err != nil {
				t.Fatal(err)
			}
			var again []SharedFormer
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatal(err)
			}
			before := f.Bytes()
			if f, err = ReceiveFormer(again); err != nil || f.Bytes() != before {
				t.Fatalf("%+v, %v", f, err)
			}
		}
		if n := w.group.Revert(f); n != 3 || len(f.Resources()) != 3 || len(f.Types()) != 1 {
			t.Errorf("%d changes, %d resources, %d types", n, len(f.Resources()), len(f.Types()))
		}
		c.getsAll(t, "the content before", "-d", "a", "b")
		if p := w.group.Pending(); len(p) != 1 || p[0].Added != 1 || p[0].Changed != 1 || p[0].Removed != 1 {
			t.Errorf("%+v is pending", p)
		}
		for _, wrong := range w.cache.Check() {
			t.Error(wrong)
		}
	}
}

// TestReceiveFormerDamaged: what no node has made is an error, and never a panic.
func TestReceiveFormerDamaged(t *testing.T) {
	for name, one := range map[string]SharedFormer{
		"no message":   {TypeURL: clusters.URL, Before: []byte{0xff}},
		"no resource":  {TypeURL: clusters.URL, Before: []byte{2<<3 | 2, 1, 0xff}},
		"no digest":    {TypeURL: clusters.URL, After: map[string]string{"a": "x"}},
		"short digest": {TypeURL: clusters.URL, After: map[string]string{"a": "00"}},
	} {
		if f, err := ReceiveFormer([]SharedFormer{one}); err == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// FuzzReceiveFormer decodes former contents of other nodes, and reverts to them.
func FuzzReceiveFormer(f *testing.F) {
	f.Add([]byte(`[{"type_url":"type.googleapis.com/envoy.config.cluster.v3.Cluster","stream":"","before":"EgA=","after":{"a":""}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var shared []SharedFormer
		if json.Unmarshal(text, &shared) != nil {
			return
		}
		if former, err := ReceiveFormer(shared); err == nil {
			w := start(t, Config{})
			w.group.Govern(&Governor{Types: map[string]bool{clusters.URL: true}, Changed: func(*Group) {}})
			w.full(clusters, "1", res("a", "1"))
			w.group.Revert(former)
			for _, wrong := range w.cache.Check() {
				t.Error(wrong)
			}
		}
	})
}
