package head

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// sent is a write that is in transit, or was lost, or arrives twice.
type sent struct {
	epoch, generation uint64
	call              store.Call
}

// fences is a key in Redis with nodes that all claim to own it. Their writes arrive late, in any
// order, several times or never.
type fences struct {
	t      *testing.T
	server *redistest.Server
	store  *store.Store
	epochs []uint64 // by node; 0: never claimed
	last   []uint64 // generation, by node
	onWay  []sent
	newest Head   // that Redis has had since it was emptied
	claim  uint64 // the newest since then
	ever   uint64 // the newest ever
}

func (f *fences) run(t *rapid.T, script *store.Script, call store.Call) store.Reply {
	t.Helper()
	r, err := f.store.Run(f.t.Context(), script, call.Keys, call.Args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r
}

func (f *fences) key() string { return f.t.Name() }

// Claim: each claim is above all earlier ones, also those that Redis has lost.
func (f *fences) Claim(t *rapid.T) {
	i := rapid.IntRange(0, len(f.epochs)-1).Draw(t, "node")
	k, err := decodeKeyState(f.run(t, claim, claimCall(f.store, f.key())), nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if k.epoch <= f.ever {
		t.Fatalf("epoch %d after %d", k.epoch, f.ever)
	}
	f.epochs[i], f.claim, f.ever = k.epoch, k.epoch, k.epoch
	f.last[i] = k.heads[clusters.URL].Generation
}

// Send sends a write of a node.
func (f *fences) Send(t *rapid.T) {
	i := rapid.IntRange(0, len(f.epochs)-1).Draw(t, "node")
	if f.epochs[i] == 0 {
		t.Skip()
	}
	f.last[i]++
	h := Head{Epoch: f.epochs[i], Generation: f.last[i], Owner: fmt.Sprint(i), Digest: resource.Digest{byte(i), byte(f.last[i])}}
	f.onWay = append(f.onWay, sent{h.Epoch, h.Generation, writeCall(f.store, nil, f.key(), h.Epoch, map[string]Head{clusters.URL: h})})
}

// Arrive delivers a write, which may be delivered again.
func (f *fences) Arrive(t *rapid.T) {
	if len(f.onWay) == 0 {
		t.Skip()
	}
	s := rapid.SampledFrom(f.onWay).Draw(t, "write")
	epoch, err := f.run(t, write, s.call).Text()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if refused := epoch != fmt.Sprint(s.epoch); refused != (s.epoch < f.claim) {
		t.Fatalf("a write of epoch %d was refused: %t; the key was claimed in %d", s.epoch, refused, f.claim)
	}
	f.claim = max(f.claim, s.epoch) // Redis may have lost it
}

// Flush empties Redis.
func (f *fences) Flush(t *rapid.T) {
	f.server.Flush()
	f.newest, f.claim = Head{}, 0
}

// Check: an older head never replaces a newer one, and none of an older epoch appears after a
// claim.
func (f *fences) Check(t *rapid.T) {
	k, err := decodeKeyState(f.run(t, read, readCall(f.store, f.key())), nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	h, ok := k.heads[clusters.URL]
	switch {
	case !ok && f.newest.Generation > 0:
		t.Fatalf("%+v is gone", f.newest)
	case !ok:
		return
	case f.newest.newer(h):
		t.Fatalf("%+v was replaced by %+v", f.newest, h)
	case h != f.newest && h.Epoch < f.claim:
		t.Fatalf("%+v came after the claim of %d", h, f.claim)
	case k.epoch != f.claim:
		t.Fatalf("the key is in epoch %d, claimed in %d", k.epoch, f.claim)
	}
	f.newest = h
}

// TestFencing: however many nodes claim to own a key, and whatever happens to their writes in
// transit, an older epoch never overwrites the head of a newer one, nor an older write of one node
// its newer one.
func TestFencing(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	rapid.Check(t, func(rt *rapid.T) {
		server.Flush()
		f := &fences{t: t, server: server, store: s, epochs: make([]uint64, 3), last: make([]uint64, 3)}
		rt.Repeat(map[string]func(*rapid.T){"claim": f.Claim, "send": f.Send, "arrive": f.Arrive, "flush": f.Flush, "": f.Check})
	})
}

// TestAmbiguousWrites: writes whose answer was lost are repeated, and neither that nor other events
// meanwhile replace anything newer by something older.
func TestAmbiguousWrites(t *testing.T) { inBubble(t, testAmbiguousWrites) }

func testAmbiguousWrites(t *testing.T, redis *bubble) {
	direct := redis.open()
	proxy := redis.network.NewNetwork(t, redisAt)
	through := redis.openAt(proxy.Addr())
	a := newNode(t, "a", through, never, never).key("k")
	b := newNode(t, "b", direct, never, never).key("k")
	stop := a.own()
	a.apply("1")
	first := storedSoon(direct, a)
	redis.wait(time.Second) // until a has all answers: a new connection needs some before it can write

	proxy.Stall(xdstest.ToClient)
	a.apply("2")
	second := storedSoon(direct, a) // although the call of a fails
	xdstest.Eventually(t, "a failure", func() bool { return a.metric("xdsrelay.tier.head.writes", "failed") > 0 })
	if second.Epoch != first.Epoch || second.Generation != first.Generation+1 {
		t.Errorf("%+v, after %+v", second, first)
	}
	a.apply("3")
	proxy.Stall(0)
	if third := storedSoon(direct, a); !third.newer(second) {
		t.Errorf("%+v, after %+v", third, second)
	}
	redis.wait(10 * time.Second) // until all failed writes were retried

	proxy.Stall(xdstest.ToClient)
	a.apply("4")
	storedSoon(direct, a)
	b.own()
	b.apply("5")
	head := storedSoon(direct, b)
	stop() // while its writes are still repeated
	proxy.Stall(0)
	xdstest.Eventually(t, "a to have Redis again", func() bool { return through.State().Up })
	a.Follow(a.Group)
	a.sees(b)
	if h := stored(t, direct, "k").heads[clusters.URL]; h != head {
		t.Errorf("%+v was replaced by %+v", head, h)
	}
}

// TestOneKeyIsRefused: a key for which Redis rejects all writes does not delay the others, and is
// written when it can be.
func TestOneKeyIsRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	n := newNode(t, "a", s, soon, never)
	server.Do("SET", name(s, "bad"), "no hash")
	bad, good := n.key("bad"), n.key("good")
	bad.own()
	bad.apply("1")
	xdstest.Eventually(t, "a claim to fail", func() bool { return n.metric("xdsrelay.tier.head.claims", "failed") > 0 })
	good.own()
	good.apply("1")
	storedSoon(s, good)
	good.apply("2")
	storedSoon(s, good)
	server.Do("DEL", name(s, "bad"))
	storedSoon(s, bad)
}

// TestClockSetBack: claims are above earlier ones also if the clock of Redis is behind these, like
// that of a replica may be.
func TestClockSetBack(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	const ahead = 8_000_000_000_000_000
	server.Do("HSET", name(s, "k"), epochField, fmt.Sprint(ahead))
	for i := range 3 {
		call := claimCall(s, "k")
		r, err := s.Run(t.Context(), claim, call.Keys, call.Args...)
		if err != nil {
			t.Fatal(err)
		}
		if k, err := decodeKeyState(r, nil); err != nil || k.epoch != ahead+uint64(i)+1 {
			t.Errorf("epoch %d, %v, expected %d", k.epoch, err, ahead+uint64(i)+1)
		}
	}
}

// TestNumbersOfNobody: an epoch or generation that no node can have written, but a faulty program
// or a person, does not keep heads from being written.
func TestNumbersOfNobody(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	n := newSweeper(t, "a", s, never)
	spoil := func(key, number string) {
		server.Do("HSET", name(s, key), epochField, number, typeField+clusters.URL, number+" "+number+" {}")
	}
	for _, number := range []string{"9007199254740991", "9007199254740993", "18446744073709551615", "99999999999999999999999", "1e300", "inf", "nan", "-1", "x"} {
		spoil(number, number)
		k := n.key(number)
		k.own()
		k.apply("1")
		h := storedSoon(s, k)
		if h.Epoch >= maxNumber {
			t.Errorf("%s: claimed in epoch %d", number, h.Epoch)
		}
		mended := func() bool {
			is, err := tryStored(t, s, number)
			return err == nil && is.heads[clusters.URL].holds(k.edition()) && is.heads[clusters.URL].Epoch == is.epoch
		}
		server.Do("HSET", name(s, number), epochField, number)
		xdstest.Eventually(t, "the epoch to be written again over "+number, mended)
		spoil(number, number)
		xdstest.Eventually(t, "the head to be written again over "+number, mended)
	}
}
