package cache

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// TestHistoryNames: an update names what it added, changed and removed, a bounded number of each.
func TestHistoryNames(t *testing.T) {
	w := start(t, Config{})
	w.client(clusters, true)
	table := w.group.Table(clusters)
	var many []*resource.Resource
	for i := range 25 {
		many = append(many, res(fmt.Sprintf("many-%02d", i), "1"))
	}
	w.feed.Apply(Update{Type: clusters, Resources: append(many, res("a", "1"), res("b", "1"))})
	w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("b", "2"), res("c", "1")}, Removed: []string{"a"}})
	past := table.History()
	if p := past[0]; !slices.Equal(p.AddedNames, []string{"c"}) || !slices.Equal(p.ChangedNames, []string{"b"}) || !slices.Equal(p.RemovedNames, []string{"a"}) || p.Number != 2 || p.Contents {
		t.Errorf("%+v", p)
	}
	if p := past[1]; len(p.AddedNames) != namesPerUpdate || p.Added != 27 || p.Number != 1 {
		t.Errorf("%+v", p)
	}
}

// contentsOf formats a comparison: name:from>to, with - for absent and ? for unknown.
func contentsOf(c Comparison) (out []string) {
	of := func(m Moment) string {
		switch m.Known {
		case KnownContent:
			return string(m.Resource.Body)
		case KnownAbsent:
			return "-"
		}
		return "?"
	}
	for _, one := range c.Changes {
		out = append(out, one.Name+":"+of(one.From)+">"+of(one.To))
	}
	if c.Unlisted > 0 {
		out = append(out, fmt.Sprint("unlisted ", c.Unlisted))
	}
	if c.Forgotten {
		out = append(out, "forgotten")
	}
	return out
}

// TestCompare: two updates are compared with the contents of their time, as far as these are kept.
func TestCompare(t *testing.T) {
	w := start(t, Config{History: 4, HistoryBytes: 1 << 20})
	w.client(clusters, true)
	table := w.group.Table(clusters)
	expect := func(from, to uint64, want ...string) {
		t.Helper()
		if got := contentsOf(table.Compare(from, to)); !slices.Equal(got, want) {
			t.Errorf("from %d to %d: %q, expected %q", from, to, got, want)
		}
	}
	w.apply(clusters, res("a", "a1"), res("b", "b1"))                                                                             // 1
	w.apply(clusters, res("a", "a2"))                                                                                             // 2
	w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("a", "a3"), res("c", "c1")}, Removed: []string{"b"}}) // 3
	expect(0, 1, "a:->a1", "b:->b1")
	expect(1, 2, "a:a1>a2")
	expect(2, 3, "a:a2>a3", "b:b1>-", "c:->c1")
	expect(0, 3, "a:->a3", "c:->c1")
	expect(0, 2, "a:->a2", "b:->b1")
	expect(1, 99, "a:a1>a3", "b:b1>-", "c:->c1")
	w.apply(clusters, res("a", "a1"), res("b", "b1")) // 4: back, with other resources
	expect(1, 4, "c:->c1")
	w.apply(clusters, res("c", "c2")) // 5, for which 1 is forgotten
	expect(0, 2, "a:a1>a2", "forgotten")
	expect(4, 5, "c:c1>c2")
	w.cache.DropHistory()
	expect(1, 2, "a:?>?")
	expect(2, 3, "a:?>?", "b:?>-", "c:->?")
	expect(4, 5, "c:?>c2")
	if used := w.cache.HistoryBytes(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// TestCompareModel: comparisons agree with copies of the content after each update.
func TestCompareModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, Config{History: 100, HistoryBytes: 1 << 20})
		defer w.close()
		w.client(clusters, true)
		table := w.group.Table(clusters)
		states := []map[string]string{{}}
		for range rapid.IntRange(1, 12).Draw(r, "updates") {
			now := maps.Clone(states[len(states)-1])
			u := Update{Type: clusters}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4, rapid.ID[string]).Draw(r, "names") {
				if content := rapid.IntRange(0, 2).Draw(r, "content"); content > 0 {
					now[name] = fmt.Sprint(content)
					u.Resources = append(u.Resources, res(name, now[name]))
				} else {
					delete(now, name)
					u.Removed = append(u.Removed, name)
				}
			}
			before := len(table.History())
			if w.feed.Apply(u); len(table.History()) > before {
				states = append(states, now)
			}
		}
		from := rapid.IntRange(0, len(states)-1).Draw(r, "from")
		to := rapid.IntRange(from, len(states)-1).Draw(r, "to")
		var want []string
		for _, name := range []string{"a", "b", "c", "d"} {
			was, is := states[from][name], states[to][name]
			if was != is {
				want = append(want, name+":"+orAbsent(was)+">"+orAbsent(is))
			}
		}
		if got := contentsOf(table.Compare(uint64(from), uint64(to))); !slices.Equal(got, want) {
			r.Errorf("from %d to %d: %q, expected %q", from, to, got, want)
		}
	})
}

func orAbsent(content string) string {
	if content == "" {
		return "-"
	}
	return content
}

// TestHistoryBytes: the previous contents of all keys are bounded, the oldest are dropped first,
// whichever key they are of, and what is shared counts once. They count as memory of their key.
func TestHistoryBytes(t *testing.T) {
	const limit = 100 << 10
	w := start(t, Config{HistoryBytes: limit})
	w.client(clusters, true)
	table := w.group.Table(clusters)
	other := w.cache.Join("other", &corev3.Node{Id: "other"})
	defer w.cache.Leave(other)
	otherFeed := <-w.feeds
	otherTable := other.Table(clusters)
	var watcher Watcher
	otherTable.Replace(&watcher, true, nil)
	body := func(i int) string { return fmt.Sprint(i, strings.Repeat("x", 10<<10)) }
	otherFeed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("other", body(1000))}})
	otherFeed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("other", body(1001))}})
	if !otherTable.History()[0].Contents {
		t.Error("the content before is not kept")
	}
	w.apply(clusters, res("a", body(0)))
	empty := table.info().Bytes
	for i := 1; i <= 15; i++ {
		w.apply(clusters, res("a", body(i)))
		if used := w.cache.HistoryBytes(); used > limit {
			t.Fatalf("%d bytes after update %d", used, i)
		}
	}
	if otherTable.History()[0].Contents {
		t.Error("the oldest content of all is still kept")
	}
	kept := 0
	for i, p := range table.History() {
		if p.Contents {
			if kept++; i != kept-1 {
				t.Errorf("update %d is kept, and newer ones are not", i)
			}
		}
	}
	if kept < 8 || kept > 9 {
		t.Errorf("%d contents are kept", kept)
	}
	if grown := table.info().Bytes - empty; grown < 8*(10<<10) || grown > limit+1000 {
		t.Errorf("the key counts %d bytes more", grown)
	}
	w.cache.DropHistory()
	if grown := table.info().Bytes - empty; grown < -100 || grown > 100 {
		t.Errorf("the key counts %d bytes more without contents", grown)
	}
}

// TestHistoryShares: the content before is the resource that the table had, not a copy, and counts
// once however many keys had it.
func TestHistoryShares(t *testing.T) {
	w := start(t, Config{HistoryBytes: 1 << 20})
	w.client(clusters, true)
	old := res("a", strings.Repeat("x", 10<<10))
	w.apply(clusters, old)
	w.apply(clusters, res("a", "2"))
	one := w.cache.HistoryBytes()
	if from := w.group.Table(clusters).Compare(1, 2).Changes[0].From.Resource; &from.Body[0] != &old.Body[0] {
		t.Error("it was copied")
	}
	other := w.cache.Join("other", &corev3.Node{Id: "other"})
	defer w.cache.Leave(other)
	feed := <-w.feeds
	var watcher Watcher
	other.Table(clusters).Replace(&watcher, true, nil)
	feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{old}})
	feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("a", "2")}})
	if both := w.cache.HistoryBytes(); one < 10<<10 || both > one+200 {
		t.Errorf("%d bytes of two keys, %d of one", both, one)
	}
}

// TestHistoryEnds: contents end with their update, and with their key; secrets are never kept, nor
// anything with the limit 0.
func TestHistoryEnds(t *testing.T) {
	secrets := resource.TypeOf(resource.SecretURL)
	w := start(t, Config{History: 2, HistoryBytes: 1 << 20, IdleBytes: -1, Linger: -1})
	w.client(secrets, false, "s")
	w.apply(secrets, res("s", "1"))
	w.apply(secrets, res("s", "2"))
	if w.group.Table(secrets).History()[0].Contents || w.cache.HistoryBytes() != 0 {
		t.Errorf("a secret is kept: %d bytes", w.cache.HistoryBytes())
	}
	w.client(clusters, true)
	for i := range 10 {
		w.apply(clusters, res("a", fmt.Sprint(i, strings.Repeat("x", 1000))))
	}
	if used := w.cache.HistoryBytes(); used < 2000 || used > 3000 {
		t.Errorf("%d bytes of two updates", used)
	}
	w.cache.Leave(w.group)
	for end := time.Now().Add(10 * time.Second); w.cache.HistoryBytes() != 0; runtime.Gosched() { // after its feed has ended
		if time.Now().After(end) {
			t.Fatalf("%d bytes after the key", w.cache.HistoryBytes())
		}
	}
	w.join()
	off := start(t, Config{})
	off.client(clusters, true)
	off.apply(clusters, res("a", "1"))
	off.apply(clusters, res("a", "2"))
	if got := contentsOf(off.group.Table(clusters).Compare(1, 2)); !slices.Equal(got, []string{"a:?>2"}) || off.cache.HistoryBytes() != 0 {
		t.Errorf("with the limit 0: %q, %d bytes", got, off.cache.HistoryBytes())
	}
}

// TestVersions: a table remembers which generation has the content of a version of the control
// plane, also of an update without a change, and on nodes that follow the owner.
func TestVersions(t *testing.T) {
	w := start(t, Config{})
	w.client(clusters, true)
	table := w.group.Table(clusters)
	expect := func(version string, want uint64, known bool) {
		t.Helper()
		if gen, ok := table.VersionReached(version); gen != want || ok != known {
			t.Errorf("%s: generation %d, %t; expected %d, %t", version, gen, ok, want, known)
		}
	}
	full := func(version string, rs ...*resource.Resource) {
		w.feed.Apply(Update{Type: clusters, Full: true, Resources: rs, Version: version})
	}
	full("v1", res("a", "1"), res("b", "1"))
	full("v2", res("a", "1"), res("b", "1"))
	full("v3", res("a", "2"), res("b", "1"))
	expect("v1", 2, true)
	expect("v2", 2, true)
	expect("v3", 3, true)
	expect("v4", 0, false)
	full("v1", res("a", "1"), res("b", "1"))
	expect("v1", 4, true) // a rollback
	if got := table.History()[0].ControlPlaneVersion; got != "v1" {
		t.Errorf("version %q", got)
	}
	if got := table.VersionsSince(2, 4); !slices.Equal(got, []string{"v3", "v1"}) {
		t.Errorf("versions %q", got)
	}
	w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{Versions: []string{"v7", "v8"}}, Resources: []*resource.Resource{res("a", "9")}})
	expect("v7", 5, true)
	expect("v8", 5, true)
	w.feed.Apply(Update{Type: clusters, System: resource.SystemVersion{Version: strings.Repeat("x", 1000)}, Resources: []*resource.Resource{res("a", "10")}})
	expect(strings.Repeat("x", 1000), 6, true)
	for i := range 2 * MaxVersions {
		full(fmt.Sprint(i), res("a", fmt.Sprint(i)))
	}
	if expect("v8", 0, false); len(table.core.heard) != MaxVersions {
		t.Errorf("%d versions are remembered", len(table.core.heard))
	}
}

// TestHistoryConcurrently: keys record, readers compare, and contents are dropped at the same time,
// and in the end what is counted is what is kept.
func TestHistoryConcurrently(t *testing.T) {
	w := start(t, Config{HistoryBytes: 20 << 10})
	w.client(clusters, true)
	other := w.cache.Join("other", &corev3.Node{Id: "other"})
	defer w.cache.Leave(other)
	feeds, tables := []*Feed{w.feed, <-w.feeds}, []*Table{w.group.Table(clusters), other.Table(clusters)}
	var watcher Watcher
	tables[1].Replace(&watcher, true, nil)
	var all sync.WaitGroup
	for i, f := range feeds {
		all.Go(func() {
			for n := range 200 {
				f.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("a", fmt.Sprint(n, strings.Repeat("x", 1000)))}})
			}
		})
		all.Go(func() {
			for range 200 {
				for _, c := range tables[i].Compare(0, 1000).Changes {
					if c.To.Known == KnownContent && len(c.To.Resource.Body) < 1000 {
						t.Error("another content")
					}
				}
				tables[i].History()
				_ = tables[i].info().Bytes
			}
		})
	}
	all.Go(func() {
		for range 20 {
			w.cache.DropHistory()
		}
	})
	all.Wait()
	if used := w.cache.HistoryBytes(); used > 20<<10 || used < 0 {
		t.Errorf("%d bytes are kept", used)
	}
	w.cache.DropHistory()
	if used, own := w.cache.HistoryBytes(), tables[0].core.pastBytes.Load()+tables[1].core.pastBytes.Load(); used != 0 || own != 0 || len(w.cache.past.bodies) > 0 {
		t.Errorf("%d bytes, %d of the keys, %d bodies are counted, and nothing is kept", used, own, len(w.cache.past.bodies))
	}
}
