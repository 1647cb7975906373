package head

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// TestHints: the content of the owner of a key becomes its head; other nodes that have the key are
// notified and know that they are behind, until they are not (K12). Content that they have before
// the hint does not count as behind.
func TestHints(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	a, b := newNode(t, "a", s, never, never).key("k"), newNode(t, "b", s, never, never).key("k")
	a.own()
	a.apply("1")
	first := b.sees(a)
	if first.Owner != "a" || first.Generation != 1 || first.Epoch == 0 || first.Version != a.edition().Version {
		t.Errorf("%+v", first)
	}
	if !b.edition().Standing.Behind() || b.metric("xdsrelay.tier.generation_lag", "envoy.config.cluster.v3.Cluster") != 1 {
		t.Error("b has nothing and is not behind")
	}
	b.apply("1")
	if b.edition().Standing.Behind() || b.metric("xdsrelay.tier.generation_lag", "envoy.config.cluster.v3.Cluster") != 0 {
		t.Error("b is behind what it holds")
	}
	b.apply("2") // it is faster than Redis
	a.apply("2")
	second := b.sees(a)
	if b.edition().Standing.Behind() || second.Generation != 2 || second.Epoch != first.Epoch {
		t.Errorf("%+v; behind: %t", second, b.edition().Standing.Behind())
	}
	a.apply("3")
	a.apply("4")
	third := b.sees(a)
	if !b.edition().Standing.Behind() || third.Generation < 3 || a.edition().Standing.Behind() {
		t.Errorf("%+v; a is behind: %t, b: %t", third, a.edition().Standing.Behind(), b.edition().Standing.Behind())
	}
	if n := b.metric("xdsrelay.tier.generation_lag", "envoy.config.cluster.v3.Cluster"); n != int64(third.Generation-2) {
		t.Errorf("b is %d generations behind, of %d", n, third.Generation)
	}
	if epoch, ok := a.Epoch("k"); epoch != first.Epoch || !ok {
		t.Errorf("a has claimed the key in %d, %t", epoch, ok)
	}
	if epoch, ok := b.Epoch("k"); ok {
		t.Errorf("b has claimed the key in %d", epoch)
	}
	if ttl := server.Do("PTTL", name(s, "k")).(int64); ttl < keptFor.Milliseconds()/2 || ttl > keptFor.Milliseconds() {
		t.Errorf("the head is kept for %d ms", ttl)
	}
	if n := a.metric("xdsrelay.tier.head.claims", "ok"); n != 1 {
		t.Errorf("%d claims", n)
	}
	for _, n := range []*keyed{a, b} {
		xdstest.Eventually(t, "nothing to complain about", func() bool {
			wrong, err := n.Check(t.Context())
			return len(wrong) == 0 && err == nil
		})
	}
}

// TestWithoutHints: a node that gets no hint finds the head by polling, and heads of keys and types
// that it does not have do no harm.
func TestWithoutHints(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	b := newNode(t, "b", s, soon, never).key("k")
	h := Head{Epoch: 5, Generation: 7, Digest: resource.Digest{1}, Version: "v", Owner: "x", At: time.UnixMilli(1)}
	server.Do("HSET", name(s, "k"), epochField, "5", typeField+clusters.URL, h.encode(), typeField+"other", "what?", typeField+"more", h.encode(), "more", "x")
	xdstest.Eventually(t, "the head", func() bool { return b.head() == h })
	if !b.edition().Standing.Behind() {
		t.Error("b is not behind")
	}
	server.Do("HSET", name(s, "k"), typeField+clusters.URL, Head{Epoch: 5, Generation: 6}.encode())
	late := newNode(t, "late", s, never, never).key("k") // reads at once
	xdstest.Eventually(t, "the head", func() bool { return late.head().Generation == 6 })
	if b.head() != h {
		t.Error("an older head replaced a newer one")
	}
	server.Do("SET", name(s, "no hash"), "x")
	c := newNode(t, "c", s, soon, never)
	c.key("no hash")
	other := c.key("k")
	xdstest.Eventually(t, "the head", func() bool { return other.head().Generation == 6 })
}

// TestKeysOnly: a node forgets the heads of keys that it does not have any more.
func TestKeysOnly(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	n := newNode(t, "n", s, soon, never)
	k := n.key("k")
	k.own()
	k.apply("1")
	k.sees(k)
	k.Table(clusters).Leave(&k.watcher)
	n.cache.Leave(k.Group)
	xdstest.Eventually(t, "the key to be forgotten", func() bool { _, ok := n.Of("k", clusters.URL); return !ok })
}

// TestFlushed: the owners of keys write heads that Redis has lost again, unchanged.
func TestFlushed(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	n := newNode(t, "n", s, soon, never)
	var keys []*keyed
	for i := range 3 {
		k := n.key(fmt.Sprint("k", i))
		k.own()
		k.apply("1")
		keys = append(keys, k)
	}
	var before []Head
	for _, k := range keys {
		before = append(before, storedSoon(s, k))
	}
	server.Flush()
	for i, k := range keys {
		if h := storedSoon(s, k); h != before[i] {
			t.Errorf("%+v became %+v", before[i], h)
		}
	}
	server.Restart()
	for _, k := range keys {
		k.apply("2")
	}
	for i, k := range keys {
		if h := storedSoon(s, k); !h.newer(before[i]) {
			t.Errorf("%+v became %+v", before[i], h)
		}
	}
}

// TestSpoiled: heads that were removed or replaced by hand, without a stamp, are written again by
// the owners of the keys.
func TestSpoiled(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	k := newSweeper(t, "n", s, never).key("k")
	k.own()
	k.apply("1")
	storedSoon(s, k)
	server.Do("HDEL", name(s, "k"), typeField+clusters.URL)
	storedSoon(s, k)
	server.Do("HSET", name(s, "k"), typeField+clusters.URL, "garbage")
	storedSoon(s, k)
}

// TestRedisAway: while Redis is down nothing waits for it, however much changes, and when it is
// back the newest head is written, once.
func TestRedisAway(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Second)
	n := newNode(t, "n", s, soon, never)
	k := n.key("k")
	k.own()
	k.apply("1")
	storedSoon(s, k)
	server.Pause()
	for i := range 1000 {
		k.apply(fmt.Sprint(i))
	}
	xdstest.Eventually(t, "an attempt", func() bool { return n.metric("xdsrelay.tier.head.writes", "failed") > 0 })
	n.queue.mu.Lock()
	if len(n.queue.keys) > 1 {
		t.Errorf("%d keys wait to be written, of one", len(n.queue.keys))
	}
	n.queue.mu.Unlock()
	server.Resume()
	xdstest.Eventually(t, "Redis to be back", func() bool { return s.State().Up })
	if h := storedSoon(s, k); h.Generation > 100 {
		t.Errorf("generation %d", h.Generation)
	}
}

// TestTakeOver: a new owner whose content differs from the head keeps the head until its control
// plane has answered, or the time is over; it is behind meanwhile (K12). If its content is that of
// the head, it takes over the head at once, with a claim above the previous one.
func TestTakeOver(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	a, b := newNode(t, "a", s, never, never).key("k"), newNode(t, "b", s, soon, never).key("k")
	stop := a.own()
	a.apply("1")
	b.apply("1")
	b.sees(a)
	a.apply("2")
	head := b.sees(a)
	stop()
	stop = b.own()
	xdstest.Eventually(t, "b to claim the key", func() bool { return stored(t, s, "k").epoch > head.Epoch })
	xdstest.Eventually(t, "b to have looked at the key", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.owned["k"].deferred
	})
	if h := stored(t, s, "k").heads[clusters.URL]; h != head {
		t.Fatalf("b has taken the head back: %+v", h)
	}
	if !b.edition().Standing.Behind() {
		t.Error("b does not know that it is behind")
	}
	b.apply("2") // the control plane has answered
	if h := storedSoon(s, b); h.Owner != "b" || h.Epoch <= head.Epoch || h.Generation != head.Generation || b.edition().Standing.Behind() {
		t.Errorf("%+v, after %+v; behind: %t", h, head, b.edition().Standing.Behind())
	}

	c := newNode(t, "c", s, soon, 300*time.Millisecond).key("k")
	c.apply("old")
	c.sees(b)
	stop()         // otherwise b claims the key again once it has lost it
	stop = c.own() // nothing happens but that its time ends
	h := storedSoon(s, c)
	if h.Generation != head.Generation+1 || h.Owner != "c" {
		t.Errorf("%+v", h)
	}
	stop()

	// The head is not known before the claim, and is that of another node.
	d := &keyed{node: newNode(t, "d", s, never, never)}
	d.Group = d.cache.Join("k", &corev3.Node{Id: "node"})
	d.feed = <-d.feeds
	d.Table(clusters).Replace(&d.watcher, true, nil)
	d.apply("older")
	d.own()
	xdstest.Eventually(t, "d to claim the key", func() bool { return d.head() == h })
	if !d.edition().Standing.Behind() {
		t.Error("d takes the head of c for its own")
	}
}

// TestTakeOverConfirmed: a new owner whose own control plane had answered before, since the node
// asked it directly while the previous owner was unreachable, writes its content at once: clients
// have that already (K12).
func TestTakeOverConfirmed(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	a, b := newNode(t, "a", s, never, never).key("k"), newNode(t, "b", s, soon, never).key("k")
	stop := a.own()
	a.apply("1")
	head := storedSoon(s, a)
	stop()
	b.feed.TakeDemand(true, true)
	b.feed.Up()
	b.apply("2")
	b.sees(a)
	b.own()
	if h := storedSoon(s, b); h.Owner != "b" || h.Generation != head.Generation+1 {
		t.Errorf("%+v, after %+v", h, head)
	}
	// The server has it a moment before b has its answer.
	xdstest.Eventually(t, "b to know that the head is its own", func() bool { return !b.edition().Standing.Behind() })
}

// TestTakeOverOvertaken: a new owner that has the content of before keeps the head that another node
// advanced, since its own control plane may be later; it writes its own if that brings nothing (K12).
func TestTakeOverOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *bubble) {
		s := redis.open()
		a, b := newNode(t, "a", s, never, never).key("k"), newNode(t, "b", s, never, never).key("k")
		other := newNode(t, "c", s, never, never).key("k")
		stop := a.own()
		for _, k := range []*keyed{a, b, other} {
			k.confirm()
			k.apply("1")
			k.sees(a)
		}
		stop()
		other.advances()
		other.apply("2")
		newer := b.sees(other)
		b.own()
		redis.wait(overtakenFor - time.Second)
		if h := stored(t, s, "k").heads[clusters.URL]; !h.same(newer) || !b.edition().Standing.Behind() {
			t.Errorf("%+v was replaced by %+v; behind: %t", newer, h, b.edition().Standing.Behind())
		}
		redis.wait(2 * time.Second)
		if h := storedSoon(s, b); h.Owner != "b" || !h.newer(newer) {
			t.Errorf("%+v, after %+v", h, newer)
		}
	})
}

// TestAdvanceAfterAClaim: a node that asks the control plane itself advances the heads of an owner that
// has claimed the key, and has written nothing, because it cannot reach the control plane (K12).
func TestAdvanceAfterAClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *bubble) {
		s := redis.open()
		a, b := newNode(t, "a", s, never, never).key("k"), newNode(t, "b", s, never, never).key("k")
		other := newNode(t, "c", s, never, never).key("k")
		stop := a.own()
		a.apply("1")
		for _, k := range []*keyed{a, b, other} {
			k.sees(a)
		}
		stop()
		other.confirm()
		other.apply("1")
		other.advances()
		b.own()
		xdstest.Eventually(t, "the claim", func() bool { _, ok := b.Epoch("k"); return ok })
		other.apply("2")
		if h := b.sees(other); h.Owner != "c" {
			t.Errorf("the head is %+v", h)
		}
		b.confirm()
		b.apply("3")
		if h := storedSoon(s, b); h.Owner != "b" {
			t.Errorf("the owner has not replaced %+v", h)
		}
	})
}

// TestTwoOwners: of two nodes that claim the same key the later claim wins; the earlier owner
// detects that, and writes again only with a claim of its own.
func TestTwoOwners(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	a, b := newNode(t, "a", s, never, never).key("k"), newNode(t, "b", s, never, never).key("k")
	stop := a.own()
	a.apply("1")
	storedSoon(s, a)
	b.apply("2")
	b.own()
	b.apply("3")
	head := storedSoon(s, b)
	a.apply("4")
	xdstest.Eventually(t, "the older claim to be known to be lost", func() bool { _, ok := a.Epoch("k"); return !ok })
	if h := stored(t, s, "k").heads[clusters.URL]; h != head {
		t.Fatalf("%+v was replaced by %+v", head, h)
	}
	if wrong, err := b.Check(t.Context()); len(wrong) > 0 || err != nil {
		t.Errorf("%q, %v", wrong, err)
	}
	stop()

	c, d := newNode(t, "c", s, soon, never).key("l"), newNode(t, "d", s, soon, never).key("l")
	c.own()
	c.apply("1")
	storedSoon(s, c)
	end := d.own()
	d.apply("2")
	storedSoon(s, d)
	end() // its view was wrong, and it is corrected
	storedSoon(s, c)
}

// TestChecked: the check reports where memory and Redis differ.
func TestChecked(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	n := newNode(t, "n", s, never, time.Millisecond)
	k := n.key("k")
	k.own()
	k.apply("1")
	k.sees(k)
	says := func(want string) bool {
		wrong, err := n.Check(t.Context())
		return fmt.Sprint(wrong, err) == "["+want+"] <nil>"
	}
	// A difference is fixed at once, maybe before it is found again.
	finds := func(want, field string, value ...string) {
		t.Helper()
		xdstest.Eventually(t, "the check to say "+want, func() bool {
			if len(value) == 0 {
				server.Do("HDEL", name(s, "k"), field)
			} else {
				server.Do("HSET", name(s, "k"), field, value[0])
			}
			return says(want)
		})
	}
	if !says("") {
		t.Error("the check complains")
	}
	url, mine := clusters.URL, k.edition().Digest.Hex()
	finds(fmt.Sprintf("key %q, type %s: this node owns it, and there is no head", "k", url), typeField+url)
	xdstest.Eventually(t, "the head to be written again", func() bool { return says("") })
	foreign := Head{Epoch: 1, Generation: 1, Owner: "x", Digest: resource.Digest{1}}
	finds(fmt.Sprintf("key %q, type %s: this node owns it and holds %s, the head of node x is %s", "k", url, mine, foreign.Digest.Hex()), typeField+url, foreign.encode())
	xdstest.Eventually(t, "the head to be written again", func() bool { return says("") })
	finds(fmt.Sprintf("key %q: this node takes it for its own, and another one has claimed it in epoch 9000000000000000", "k"), epochField, "9000000000000000")
	server.Kill()
	if _, err := n.Check(t.Context()); err == nil {
		t.Error("no error without Redis")
	}
}

// TestCluster: the keys of a tier are on all masters of a cluster, and nodes are notified of each,
// whichever server they subscribe to.
func TestCluster(t *testing.T) {
	t.Parallel() // mostly waits
	cluster := redistest.StartCluster(t)
	s := openMode(t, store.Cluster, cluster.URL(), time.Minute)
	a := newNode(t, "a", s, never, never)
	b := newNode(t, "b", openMode(t, store.Cluster, cluster.Masters[2].URL(), time.Minute), never, never)
	masters := make(map[*redistest.Server]bool)
	var owned []*keyed
	for i := range 12 {
		k, follower := a.key(fmt.Sprint("k", i)), b.key(fmt.Sprint("k", i))
		k.own()
		k.apply("1")
		follower.sees(k)
		masters[cluster.Of(name(s, string(k.Key)))] = true
		owned = append(owned, k)
	}
	if len(masters) < 3 {
		t.Errorf("all keys are on %d masters", len(masters))
	}
	for _, k := range owned {
		k.apply("2")
	}
	for _, k := range owned {
		storedSoon(s, k)
	}
}
