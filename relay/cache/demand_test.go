package cache

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// changesOf formats one type's demand: what to subscribe to, what to unsubscribe from, and the
// wildcard if it is news.
func changesOf(ds []Demand) (out []string) {
	for _, d := range ds {
		for _, n := range d.Subscribe {
			out = append(out, "+"+n)
		}
		for _, n := range d.Unsubscribe {
			out = append(out, "-"+n)
		}
		if d.WildcardChanged && d.Wildcard {
			out = append(out, "+*")
		} else if d.WildcardChanged {
			out = append(out, "-*")
		}
	}
	return out
}

func expectDemand(t *testing.T, w *world, all bool, want ...string) {
	t.Helper()
	if got := changesOf(w.feed.TakeDemand(all, false)); !slices.Equal(got, want) {
		t.Fatalf("asked for %q, expected %q", got, want)
	}
}

func news(f *Feed) bool {
	select {
	case <-f.News():
		return true
	default:
		return false
	}
}

// TestDemandIsTheUnion: K9: each name is asked for once, for any number of clients, and only news
// are sent.
func TestDemandIsTheUnion(t *testing.T) {
	w := start(t, Config{})
	w.client(clusters, false, "a")
	if !news(w.feed) {
		t.Fatal("the feed was not told of new demand")
	}
	expectDemand(t, w, true, "+a")
	w.client(clusters, false, "a", "b")
	expectDemand(t, w, false, "+b")
	w.client(clusters, false, "a")
	w.client(clusters, false, "b", "a")
	if news(w.feed); news(w.feed) {
		t.Fatal("the feed was told twice")
	}
	expectDemand(t, w, false)
	w.client(clusters, true)
	expectDemand(t, w, false, "+*")
	w.client(endpoints, false, "e")
	expectDemand(t, w, false, "+e")
	expectDemand(t, w, true, "+a", "+b", "+*", "+e") // a new stream, in the order E1
	d := w.feed.TakeDemand(true, true)
	if !slices.Equal(d[0].Names, []string{"a", "b"}) || d[1].Names[0] != "e" || d[0].Table.Type != clusters {
		t.Fatalf("%+v", d)
	}
}

// expireAll ends all linger times.
func (w *world) expireAll(c *client) {
	c.table.mu.Lock()
	all := []*interest{c.table.core.demand.Wildcard()}
	for _, want := range c.table.core.demand.All() {
		all = append(all, want)
	}
	var at time.Time
	for _, want := range all {
		if want.Lingers() {
			booked := want.Unbook()
			if want.Linger(-w.cache.cfg.Linger); !booked {
				want.Unbook()
			}
		}
		if want.Expires().After(at) {
			at = want.Expires()
		}
	}
	c.table.mu.Unlock()
	c.table.expire(at, make(map[*Subscription]struct{}))
}

// TestNamesThatReturn: C9: a name whose interest ended and began again before the control plane was
// sent either is subscribed again, and unsubscribed when the interest finally ends.
func TestNamesThatReturn(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true, "a")
	expectDemand(t, w, true, "+a", "+*")
	leave := func() {
		c.table.Replace(&c.w, false, nil)
		w.expireAll(c)
	}
	enter := func() { c.table.Replace(&c.w, true, []string{"a"}) }
	leave()
	enter()
	expectDemand(t, w, false, "+a", "+*")
	leave()
	enter()
	leave()
	expectDemand(t, w, false, "-a", "-*")
	enter()
	leave()
	expectDemand(t, w, false) // the control plane never received it
}

// TestUnwantedContentIsDropped: K10: content without interest is forgotten with the demand, except
// what another name or the wildcard still covers.
func TestUnwantedContentIsDropped(t *testing.T) {
	w := start(t, Config{})
	c, other := w.client(clusters, true, "a"), w.client(clusters, false, "keep", "alias")
	w.apply(clusters, res("a", "1"), res("b", "1"), res("keep", "1"), aliased("long", "1", "alias"))
	w.remove(clusters, "b")
	other.ask(t, Query{})
	c.table.Leave(&c.w)
	w.expireAll(c)
	if h := w.feed.Held(clusters); len(h) != 2 || h["keep"] == "" || h["long"] == "" {
		t.Fatalf("held %v", h)
	}
	other.table.Edit(&other.w, Edit{Remove: []string{"alias"}, Add: []string{"long"}})
	w.expireAll(other)
	if h := w.feed.Held(clusters); len(h) != 2 {
		t.Fatalf("a resource went with its alias, though its name is wanted: held %v", h)
	}
}

// TestKnown: K13: a request is answered by the next response; unsolicited resources are known, too.
func TestKnown(t *testing.T) {
	w := start(t, Config{})
	c, all := w.client(clusters, false, "a", "b"), w.client(clusters, true)
	known := func(want, wantAll bool) {
		t.Helper()
		if h := c.head(); (h.Answer == Answered) != want || c.ask(t, Query{}).Known != want {
			t.Fatalf("known %t, expected %t", h.Answer == Answered, want)
		}
		if h := all.head(); (h.Answer == Answered) != wantAll {
			t.Fatalf("the wildcard is known %t, expected %t", h.Answer == Answered, wantAll)
		}
	}
	known(false, false)
	w.apply(clusters, res("a", "1")) // before the control plane was asked
	known(false, false)
	w.feed.TakeDemand(true, false)
	w.feed.Apply(Update{Type: clusters, Kind: Partial})
	known(false, false)
	w.nap()
	w.apply(clusters)
	known(true, true)
	if !w.woke()[c.w.sub] || !w.woke()[all.w.sub] {
		t.Fatal("those who waited were not woken")
	}
	c.table.Edit(&c.w, Edit{Add: []string{"new"}})
	known(false, true)
	w.apply(clusters, res("new", "1"))
	known(true, true)
	if c.head().Answer == OutOfReach {
		t.Fatal("hopeless, though all is known")
	}
}

// TestKnownByOtherMeans: the newest name that a subscription waits for may be known otherwise; the
// answer to the rest wakes it all the same.
func TestKnownByOtherMeans(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.feed.TakeDemand(true, false)
	w.feed.Apply(Update{Type: clusters, Resources: nil, Removed: nil, Kind: Partial})
	c.table.Edit(&c.w, Edit{Add: []string{"z"}})
	w.feed.Absent(clusters, []string{"z"})
	w.nap()
	w.apply(clusters) // answers for the wildcard alone
	if c.head().Answer != Answered || !w.woke()[c.w.sub] {
		t.Fatalf("%+v, woken %v", c.head(), w.woke())
	}
}

// TestWaitingEnds: Waiting reports whether any answer is missing.
func TestWaitingEnds(t *testing.T) {
	w := start(t, Config{})
	if w.feed.Waiting(nil) {
		t.Fatal("waiting, though nothing is wanted")
	}
	c := w.client(clusters, true, "a")
	w.feed.TakeDemand(true, false)
	for _, step := range []func(){func() {}, func() { w.apply(clusters) }} {
		step()
		if !w.feed.Waiting(nil) {
			t.Fatal("not waiting, though nothing is known of a name")
		}
	}
	w.apply(clusters, res("a", "1"))
	if w.feed.Waiting(nil) || len(w.feed.Types()) != 1 {
		t.Fatalf("%+v", c.head())
	}
}

// TestGhostSubscriptions: C9: if a resource arrives during an interest that has begun and
// ended before the control plane was sent either, the control plane may believe that the relay
// holds it. It is unsubscribed before it is asked for again, by name or with the wildcard.
func TestGhostSubscriptions(t *testing.T) {
	for what, in := range map[string]struct {
		wildcard bool
		names    []string
	}{"by wildcard": {true, nil}, "by name": {false, []string{"x"}}} {
		t.Run(what, func(t *testing.T) {
			w := start(t, Config{})
			c := w.client(clusters, true)
			w.client(endpoints, false, "e") // keeps the stream
			expectDemand(t, w, true, "+*", "+e")
			w.feed.Apply(Update{Type: clusters, Differences: true})
			want := func(wildcard bool, names ...string) {
				c.table.Replace(&c.w, wildcard, names)
				w.expireAll(c)
			}
			want(false)
			expectDemand(t, w, false, "-*")
			want(in.wildcard, in.names...)
			w.feed.Apply(Update{Type: clusters, Differences: true, Resources: []*resource.Resource{res("x", "1")}}) // crosses the unsubscribe
			want(false)
			expectDemand(t, w, false)
			want(false, "x")
			d := w.feed.TakeDemand(false, false)
			if len(d) != 1 || !slices.Equal(d[0].Again, []string{"x"}) {
				t.Fatalf("got %+v, expected that x is dropped first", d)
			}
		})
	}
}

// TestCopyDemand: a stream that is opened while another one is in use is asked for what that one was
// asked for and clients still want. Pending changes stay pending for both streams, also the end of an
// interest.
func TestCopyDemand(t *testing.T) {
	inTime(t, Config{Linger: -1}, func(t *testing.T, w *world) {
		c := w.client(clusters, false, "a", "b")
		expectDemand(t, w, true, "+a", "+b")
		c.table.Edit(&c.w, Edit{Add: []string{"c"}, Remove: []string{"b"}})
		<-time.After(time.Millisecond) // until the interest ends
		for range 2 {
			if got := changesOf(w.feed.CopyDemand(true)); !slices.Equal(got, []string{"+a"}) {
				t.Fatalf("a second stream is asked for %q", got)
			}
		}
		expectDemand(t, w, false, "+c", "-b")
		if got := changesOf(w.feed.CopyDemand(false)); !slices.Equal(got, []string{"+a", "+c"}) {
			t.Fatalf("a third stream is asked for %q", got)
		}
		w.close()
		if got := w.feed.CopyDemand(true); len(got) > 0 {
			t.Fatalf("after its end the feed returns %q", changesOf(got))
		}
	})
}
