package head

import (
	"strconv"
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/cache/tierhead"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// advances makes the node advance the heads of a key that another one owns.
func (k *keyed) advances() { k.t.Cleanup(k.Advance(k.Group)) }

// confirm makes this node's own control plane the one that answers from now on.
func (k *keyed) confirm() {
	k.feed.Up()
	k.feed.TakeDemand(true, false)
}

// TestAdvance: while the owner of a key is silent, a node that asks the control plane itself writes
// its newer content as the head, so that others know that they are behind (K12). Of several such
// nodes none undoes the writes of another, and none writes once a node has claimed the key.
func TestAdvance(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	owner := newNode(t, "owner", s, never, never).key("k")
	a, b, c := newNode(t, "a", s, never, never).key("k"), newNode(t, "b", s, never, never).key("k"), newNode(t, "c", s, never, never).key("k")
	leave := owner.own()
	for _, k := range []*keyed{owner, a, b, c} {
		k.apply("1")
		k.sees(owner)
	}
	first := c.head()
	leave()
	for _, k := range []*keyed{a, b} {
		k.confirm()
		k.advances()
	}
	a.apply("2")
	second := c.sees(a)
	if second.Owner != "a" || second.Epoch != first.Epoch || second.Generation != first.Generation+1 {
		t.Errorf("after %+v: %+v", first, second)
	}
	if !b.sees(a).same(second) || !c.edition().Standing.Behind() || !b.edition().Standing.Behind() || a.edition().Standing.Behind() {
		t.Errorf("behind: c %t, b %t, a %t", c.edition().Standing.Behind(), b.edition().Standing.Behind(), a.edition().Standing.Behind())
	}
	b.apply("old") // nothing proves that it is newer
	b.apply("2")
	b.apply("3")
	third := c.sees(b)
	if third.Owner != "b" || third.Epoch != first.Epoch || third.Generation != first.Generation+2 {
		t.Errorf("after %+v: %+v", second, third)
	}
	if h := stored(t, s, "k").heads[clusters.URL]; !h.same(third) {
		t.Errorf("Redis has %+v, expected %+v", h, third)
	}

	owner.apply("3")
	owner.own()
	claimed := storedSoon(s, owner)
	a.apply("3")
	a.apply("4")
	xdstest.Eventually(t, "the claim to be known", func() bool { return a.head().same(claimed) })
	a.apply("4, and more")
	owner.apply("5")
	last := a.sees(owner)
	if !last.newer(claimed) || last.Epoch != claimed.Epoch || last.Owner != "owner" {
		t.Errorf("after the claim %+v: %+v", claimed, last)
	}
}

// TestAdvanceBesideTheOwner: an owner that lives, but that another node cannot reach, is behind the
// heads that the other advances.
func TestAdvanceBesideTheOwner(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	owner, a := newNode(t, "owner", s, never, never).key("k"), newNode(t, "a", s, never, never).key("k")
	owner.own()
	for _, k := range []*keyed{owner, a} {
		k.apply("1")
		k.sees(owner)
	}
	a.confirm()
	a.advances()
	a.apply("2")
	if owner.sees(a); !owner.edition().Standing.Behind() {
		t.Error("the owner takes the head for its own")
	}
	owner.apply("2")
	if owner.edition().Standing.Behind() {
		t.Error("the owner has the content, and is behind")
	}
}

// TestAdvanceDue: what a node may write of a key that it does not own.
func TestAdvanceDue(t *testing.T) {
	digest := func(n byte) resource.Digest { return resource.Digest{n} }
	const ahead, behind, none, known = tierhead.Ahead, tierhead.Behind, cache.NoWildcard, cache.WildcardKnown
	is := func(n byte, standing tierhead.Standing, wildcard cache.WildcardState, confirmed bool) cache.TableDigest {
		return cache.TableDigest{Type: clusters, Digest: digest(n), Standing: standing, Wildcard: wildcard, Confirmed: confirmed}
	}
	at := func(epoch, generation uint64, n byte) map[string]Head {
		return map[string]Head{clusters.URL: {Epoch: epoch, Generation: generation, Digest: digest(n)}}
	}
	higher := at(7, 3, 1)
	higher["other"] = Head{Epoch: 8, Generation: 1}
	lower := at(6, 3, 1)
	lower["other"] = Head{Epoch: 7, Generation: 1}
	for name, of := range map[string]struct {
		table         cache.TableDigest
		before, known map[string]Head
		want          uint64 // the generation; 0 for none
	}{
		"what replaced the head's content":             {is(2, ahead, known, true), nil, at(7, 3, 1), 4},
		"without the wildcard":                         {is(2, ahead, none, true), nil, at(7, 3, 1), 4},
		"asked for after the head was known":           {is(2, behind, known, true), at(7, 3, 1), at(7, 3, 1), 4},
		"the same without the wildcard":                {is(2, behind, none, true), at(7, 3, 1), at(7, 3, 1), 0},
		"a head that came later":                       {is(2, behind, known, true), at(7, 3, 1), at(7, 4, 3), 0},
		"unconfirmed":                                  {is(2, ahead, known, false), nil, at(7, 3, 1), 0},
		"the head's own content":                       {is(1, ahead, known, true), nil, at(7, 3, 1), 0},
		"no head":                                      {is(2, ahead, known, true), nil, nil, 0},
		"another node has claimed the key":             {is(2, ahead, known, true), nil, higher, 0},
		"a head from before the last claim of the key": {is(2, ahead, known, true), nil, lower, 0},
		"the last generation":                          {is(2, ahead, known, true), nil, at(7, maxNumber-1, 1), 0},
	} {
		a := advanced{epoch: 7, before: of.before}
		h := a.due([]cache.TableDigest{of.table}, of.known, "node", time.Now())[clusters.URL]
		if h.Generation != of.want || h.Generation > 0 && (h.Epoch != 7 || h.Digest != of.table.Digest || h.Owner != "node") {
			t.Errorf("%s: %s", name, strconv.Quote(h.encode()))
		}
	}
}
