package gate

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

func res(name, content string) *resource.Resource {
	if content == "" {
		return nil
	}
	return resource.New(resource.Resource{Name: name, Body: []byte(content)})
}

// TestCells: a gate in each state of one name, by what the control plane sends next, and by what clients
// see next.
func TestCells(t *testing.T) {
	const none, a, b, c = "", "a", "b", "c"
	for _, tt := range []struct{ stable, sent, next, want string }{
		{none, none, none, ""}, {none, none, a, "none→a"}, {none, a, none, ""}, {none, a, a, "none→a"}, {none, a, b, "none→b"},
		{a, a, a, ""}, {a, a, b, "a→b"}, {a, a, none, "a→none"}, {a, b, a, ""}, {a, b, b, "a→b"}, {a, b, c, "a→c"}, {a, b, none, "a→none"},
		{a, none, none, "a→none"}, {a, none, a, ""}, {a, none, b, "a→b"},
	} {
		var g Gate
		g.Hold("x", res("x", tt.sent), res("x", tt.stable))
		g.Hold("x", res("x", tt.next), res("x", tt.stable))
		if got := show(&g); got != tt.want {
			t.Errorf("clients see %q, and after %q the control plane sends %q: pending is %q, expected %q", tt.stable, tt.sent, tt.next, got, tt.want)
		}
	}
	for _, tt := range []struct{ stable, sent, now, want string }{
		{a, a, b, ""}, // nothing is pending, so both change
		{a, b, c, "c→b"}, {a, b, b, ""}, {a, b, none, "none→b"}, {a, none, b, "b→none"}, {a, none, none, ""}, {none, a, a, ""}, {none, a, b, "b→a"},
	} {
		var g Gate
		g.Hold("x", res("x", tt.sent), res("x", tt.stable))
		g.Rebase("x", res("x", tt.now))
		if got := show(&g); got != tt.want {
			t.Errorf("%q is pending over %q, and clients see %q: pending is %q, expected %q", tt.sent, tt.stable, tt.now, got, tt.want)
		}
	}
}

func show(g *Gate) string {
	c, pending := g.Get("x")
	if !pending {
		return ""
	}
	text := func(r *resource.Resource) string {
		if r == nil {
			return "none"
		}
		return string(r.Body)
	}
	return text(c.Stable) + "→" + text(c.Sent)
}

// TestRefused: what was undone is the same as long as the control plane sends exactly that for each of
// the names.
func TestRefused(t *testing.T) {
	var g Gate
	all := func(string) bool { return true }
	if g.Differs(all) {
		t.Error("nothing was undone, and it differs")
	}
	bad, good := res("x", "bad"), res("x", "good")
	g.Hold("x", bad, good)
	g.Refuse("x", Digest(bad))
	g.Hold("y", nil, res("y", "good"))
	g.Refuse("y", Digest(nil))
	same := func(what string, want bool) {
		t.Helper()
		if got := !g.Differs(all); got != want {
			t.Errorf("%s: the same is %t", what, got)
		}
	}
	same("at first", true)
	g.Hold("x", res("x", "bad"), good)
	g.Hold("z", res("z", "new"), nil)
	same("sent again, with something else", true)
	g.Hold("x", res("x", "fixed"), good)
	same("a fix", false)
	g.Hold("x", bad, good)
	g.Hold("y", res("y", "good"), res("y", "good"))
	same("what was removed is back", false)
	if g.Differs(func(name string) bool { return name != "y" }) {
		t.Error("it differs by a name of which nothing is known")
	}
}

// TestModel: Sum: what the control plane has sent is always what clients see with the pending names
// replaced, whatever it sends, and whatever clients see.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Gate
		sent, stable := map[string]string{}, map[string]string{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		content := rapid.SampledFrom([]string{"", "1", "2", "3"})
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				n := name.Draw(t, "name")
				sent[n] = content.Draw(t, "content")
				g.Hold(n, res(n, sent[n]), res(n, stable[n]))
			},
			"pass": func(t *rapid.T) {
				n := name.Draw(t, "name")
				sent[n] = content.Draw(t, "content")
				stable[n] = sent[n]
				g.End(n)
			},
			"see": func(t *rapid.T) { // from last known good, or a TTL that ends
				n := name.Draw(t, "name")
				now := content.Draw(t, "content")
				if _, pending := g.Get(n); !pending {
					sent[n] = now
				}
				stable[n] = now
				g.Rebase(n, res(n, now))
			},
			"release": func(t *rapid.T) {
				for n, c := range g.All() {
					stable[n] = ""
					if c.Sent != nil {
						stable[n] = string(c.Sent.Body)
					}
					g.End(n)
				}
				if g.Bytes() != 0 {
					t.Fatalf("%d bytes are left", g.Bytes())
				}
			},
			"": func(t *rapid.T) {
				var want, seen []*resource.Resource
				for _, n := range []string{"a", "b", "c", "d"} {
					if r := res(n, sent[n]); r != nil {
						want = append(want, r)
					}
					if r := res(n, stable[n]); r != nil {
						seen = append(seen, r)
					}
					if _, pending := g.Get(n); pending != (sent[n] != stable[n]) {
						t.Fatalf("%q is pending: %t; sent %q, seen %q", n, pending, sent[n], stable[n])
					}
				}
				live, digest := g.Sent(len(seen), sum(seen))
				if live != len(want) || digest != sum(want) {
					t.Fatalf("the sum is %d resources, expected %d", live, len(want))
				}
				if wrong := g.Check(); len(wrong) > 0 {
					t.Fatal(wrong)
				}
			},
		})
	})
}

func sum(all []*resource.Resource) (d resource.Digest) {
	for _, r := range all {
		d = d.Add(r.Member())
	}
	return d
}

// TestCheck: a gate whose sums are wrong says so.
func TestCheck(t *testing.T) {
	var g Gate
	g.Hold("x", res("x", "1"), nil)
	g.held.live++
	if got := g.Check(); len(got) != 1 {
		t.Errorf("%q", got)
	}
	g.held.live--
	g.held.pending["x"] = Change{Sent: res("x", "1"), Stable: res("x", "1")}
	if got := g.Check(); !slices.ContainsFunc(got, func(w string) bool { return w == fmt.Sprintf("the pending change of %q changes nothing", "x") }) {
		t.Errorf("%q", got)
	}
	if Frozen.String() != "frozen" || Open.String() != "open" || Undone.String() != "undone" {
		t.Error("the states have other names")
	}
}
