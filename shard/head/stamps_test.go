package head

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"xdsrelay/relay/resource"
	"xdsrelay/shard/store"
)

// TestHintsReachKeys: a hint makes a node that has the key read the head at once, and no other
// node.
func TestHintsReachKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		owner, follower := b.pair(Config{})
		other := b.node("c", Config{}).key("another key")
		b.wait(longestRound)
		before := b.Calls()["EVALSHA"]
		owner.apply("2")
		b.wait(100 * time.Millisecond)
		follower.knows(owner, "after a hint")
		// A write, a stamp, and a read of the follower; rounds of three nodes may be due.
		if n := b.Calls()["EVALSHA"] - before; n < 3 || n > 6 {
			t.Errorf("a change cost %d scripts", n)
		}
		if h, ok := other.Of("k", clusters.URL); ok {
			t.Errorf("a node without the key knows %+v", h)
		}
	})
}

// TestSubscribedLate: a head that changes before a node has subscribed to its bucket is known as
// soon as it has, without a round.
func TestSubscribedLate(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		a, c := b.node("a", Config{}), b.node("b", Config{})
		for i := range 10 { // a round may be due just then
			owner := a.key(fmt.Sprint(i))
			owner.own()
			owner.apply("1")
			b.wait(5 * time.Second)
			follower := c.key(fmt.Sprint(i))
			b.wait(100 * time.Millisecond)
			owner.apply("2")
			b.wait(1200 * time.Millisecond)
			follower.knows(owner, "when it has subscribed")
		}
	})
}

// TestStampsWithoutHints: a head whose hint was lost is found in the next round, whatever happened
// to the stamps before.
func TestStampsWithoutHints(t *testing.T) {
	for name, fault := range map[string]func(b *bubble, owner *keyed, s *store.Store){
		"nothing else": func(*bubble, *keyed, *store.Store) {},
		"Redis was emptied": func(b *bubble, _ *keyed, _ *store.Store) {
			b.Flush()
			b.wait(longestRound)
		},
		"Redis is emptied after the write": func(b *bubble, owner *keyed, _ *store.Store) {
			owner.apply("1", "2")
			b.wait(100 * time.Millisecond)
			b.Flush()
			b.wait(2 * longestRound)
		},
		"the stamps were evicted": func(b *bubble, _ *keyed, s *store.Store) {
			if err := s.Delete(b.t.Context(), stampsName(s)); err != nil {
				b.t.Error(err)
			}
		},
		"the stamps have another type": func(b *bubble, _ *keyed, s *store.Store) {
			if err := s.Set(b.t.Context(), stampsName(s), []byte("x"), 0); err != nil {
				b.t.Error(err)
			}
		},
		"Redis did not answer": func(b *bubble, owner *keyed, _ *store.Store) {
			b.Pause(true)
			owner.apply("1", "2")
			b.wait(time.Minute)
			b.Pause(false)
			b.wait(15 * time.Second) // until the nodes have retried
		},
		"Redis took no writes": func(b *bubble, owner *keyed, _ *store.Store) {
			b.ReadOnly(true)
			owner.apply("1", "2")
			b.wait(time.Minute)
			b.ReadOnly(false)
			b.wait(15 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				owner, follower := b.pair(Config{})
				b.Mute(true)
				fault(b, owner, b.open())
				owner.apply("3")
				b.wait(longestRound + time.Second)
				follower.knows(owner, "without a hint")
			})
		})
	}
}

// TestStampFails: if the head was written and its stamp was not, the writer sets the stamp as soon
// as Redis accepts it, without another write.
func TestStampFails(t *testing.T) {
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprint("mute ", mute), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) { testStampFails(t, b, mute) })
		})
	}
}

func testStampFails(t *testing.T, b *bubble, mute bool) {
	owner, follower := b.pair(Config{})
	s := b.open()
	b.Mute(mute)
	first := stampIn(t, s, "k")
	// As if Redis had accepted the write, and no stamp: the name of the stamps has a wrong type for
	// a moment that ends before the next round of the follower.
	b.run(s, `redis.call('COPY', KEYS[1], KEYS[2]) redis.call('SET', KEYS[1], 'x') return 1`, []string{stampsName(s), "saved"})
	owner.apply("2")
	b.wait(50 * time.Millisecond)
	b.run(s, `redis.call('DEL', KEYS[1]) redis.call('COPY', KEYS[2], KEYS[1]) return 1`, []string{stampsName(s), "saved"})
	if h := stored(t, s, "k").heads[clusters.URL]; !h.holds(owner.edition()) || stampIn(t, s, "k") != first {
		t.Fatalf("the head is %+v, the stamp was %s and is %s", h, first, stampIn(t, s, "k"))
	}
	b.wait(2*longestRound + time.Second)
	if stampIn(t, s, "k") == first {
		t.Error("the stamp was not set")
	}
	follower.knows(owner, "after the stamp came late")
}

// TestRedisGoesBack: a head that is lost together with its stamp, as when a replica that was behind
// takes over, is written again after the next round.
func TestRedisGoesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		owner, follower := b.pair(Config{})
		s := b.open()
		names := []string{name(s, "k"), stampsName(s)}
		b.Mute(true)
		for i := range 5 { // a round of the owner may be due just then
			b.run(s, `for _, k in ipairs(KEYS) do redis.call('COPY', k, k .. ' before') end return 1`, names)
			owner.apply(fmt.Sprint("changed ", i))
			b.wait(50 * time.Millisecond)
			b.run(s, `for _, k in ipairs(KEYS) do redis.call('DEL', k) redis.call('COPY', k .. ' before', k) redis.call('DEL', k .. ' before') end return 1`, names)
			if stored(t, s, "k").heads[clusters.URL].holds(owner.edition()) {
				t.Fatal("the head is not lost: the test tests nothing")
			}
			b.wait(2*longestRound + time.Second)
			if h := stored(t, s, "k").heads[clusters.URL]; !h.holds(owner.edition()) {
				t.Errorf("Redis has %+v", h)
			}
			follower.knows(owner, "after Redis went back")
		}
	})
}

// TestStampsEvicted: if stamps are missing, owners set them although no head changes, so that all
// nodes notice when Redis then loses everything.
func TestStampsEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		owner, _ := b.pair(Config{})
		s := b.open()
		if err := s.Delete(t.Context(), stampsName(s)); err != nil {
			t.Fatal(err)
		}
		b.wait(2*longestRound + time.Second)
		if stampIn(t, s, "k") == "" {
			t.Error("the stamp is missing")
		}
		b.Flush()
		b.wait(longestRound + time.Second)
		if h := stored(t, s, "k").heads[clusters.URL]; !h.holds(owner.edition()) {
			t.Errorf("Redis has %+v", h)
		}
	})
}

// TestBucketReadFails: a key that could not be read when the stamp of its bucket changed is read
// again, although the stamp does not change again.
func TestBucketReadFails(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		owner, follower := b.pair(Config{})
		s := b.open()
		b.Mute(true)
		names := []string{name(s, "k"), "saved"}
		owner.apply("2")
		b.wait(20 * time.Millisecond)
		b.run(s, `redis.call('COPY', KEYS[1], KEYS[2]) redis.call('SET', KEYS[1], 'x') return 1`, names)
		b.wait(longestRound)
		b.run(s, `redis.call('DEL', KEYS[1]) redis.call('COPY', KEYS[2], KEYS[1]) return 1`, names)
		b.wait(longestRound)
		follower.knows(owner, "after its key could not be read")
	})
}

// TestInterrupted: a node whose subscription was interrupted reads all its keys within a minute,
// also those whose stamp was lost meanwhile.
func TestInterrupted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		cfg := Config{Sweep: 24 * time.Hour}
		owner, follower := b.pair(cfg)
		newer := owner.head()
		newer.Generation++
		s := b.open()
		b.run(s, `redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 1`, []string{name(s, "k")}, typeField+clusters.URL, newer.encode())
		b.wait(longestRound)
		if follower.head() == newer {
			t.Fatal("the follower sees a head without a stamp: the test tests nothing")
		}
		interrupted := make(chan store.Hint, 1)
		interrupted <- store.Hint{Missed: true, Part: -1}
		close(interrupted)
		follower.listen(interrupted)
		b.wait(missedWithin + 2*longestRound)
		if h := follower.head(); h.Generation < newer.Generation {
			t.Errorf("the follower knows %+v", h)
		}
	})
}

// TestWriterDies: a head from a node that ended before it set the stamp is found with the claim of
// the next owner.
func TestWriterDies(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		owner, follower, successor := b.node("a", Config{}).key("k"), b.node("b", Config{}).key("k"), b.node("c", Config{}).key("k")
		end := owner.own()
		owner.apply("1")
		b.wait(2 * time.Minute) // until the last write is confirmed
		end()
		last := owner.head()
		last.Generation, last.Digest = last.Generation+1, resource.Digest{7}
		s := b.open()
		b.Mute(true)
		call := writeCall(s, nil, "k", last.Epoch, map[string]Head{clusters.URL: last})
		if _, err := s.Run(t.Context(), write, call.Keys, call.Args...); err != nil {
			t.Fatal(err)
		}
		b.wait(time.Minute / 2)
		if follower.head() == last {
			t.Fatal("the follower sees a head without a stamp: the test tests nothing")
		}
		successor.own()
		b.wait(longestRound + time.Second)
		if h := follower.head(); h.Digest != last.Digest {
			t.Errorf("the follower knows %+v, expected %+v", h, last)
		}
	})
}

// TestSweep: a change in Redis without a stamp is found by the owner within a quarter of an hour,
// and by each of n other nodes within n times that, ± a quarter.
func TestSweep(t *testing.T) {
	const nodes = 3
	inBubble(t, func(t *testing.T, b *bubble) {
		owner, follower := b.pair(Config{Nodes: func() int { return nodes }})
		for range 100 {
			if p := follower.pause("k"); p < nodes*15*time.Minute*3/4 || p > nodes*15*time.Minute*5/4 {
				t.Fatalf("a follower reads its key after %v", p)
			}
			if p := owner.pause("k"); p < 15*time.Minute*3/4 || p > 15*time.Minute*5/4 {
				t.Fatalf("an owner reads its key after %v", p)
			}
		}
		s := b.open()
		head := owner.head()
		b.run(s, `redis.call('HSET', KEYS[1], ARGV[1], 'garbage') return 1`, []string{name(s, "k")}, typeField+clusters.URL)
		b.wait(15*time.Minute*5/4 + longestRound)
		if h := stored(t, s, "k").heads[clusters.URL]; h != head {
			t.Errorf("the owner left %+v", h)
		}
		newer := head
		newer.Generation++
		b.Mute(true)
		b.run(s, `redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 1`, []string{name(s, "k")}, typeField+clusters.URL, newer.encode())
		b.wait(nodes*15*time.Minute*5/4 + longestRound)
		if h := follower.head(); h.Generation <= head.Generation && h.Epoch <= head.Epoch {
			t.Errorf("the follower knows %+v", h)
		}
	})
}

// TestWritesAreConfirmed: a head that is lost just after it was written, as in a failover of a
// cluster, while its stamp is not, is written again within a minute.
func TestWritesAreConfirmed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		owner, _ := b.pair(Config{})
		owner.apply("2")
		b.wait(10 * time.Second)
		s := b.open()
		b.run(s, `redis.call('HDEL', KEYS[1], ARGV[1]) return 1`, []string{name(s, "k")}, typeField+clusters.URL)
		b.wait(confirmAfter + longestRound)
		if h := stored(t, s, "k").heads[clusters.URL]; !h.holds(owner.edition()) {
			t.Errorf("Redis has %+v", h)
		}
	})
}

// TestUnstampedNodes: as long as a node of the tier writes heads without stamps, as earlier
// versions do, its heads are found in each round, and with its own hints before that; its last head
// is found after it has left.
func TestUnstampedNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		var earlier atomic.Bool
		earlier.Store(true)
		cfg := Config{Unstamped: earlier.Load}
		n := b.node("n", cfg)
		k := n.key("k")
		s := b.open()
		h := Head{Epoch: 5, Owner: "earlier"}
		write := func() {
			h.Generation++
			b.run(s, `redis.call('HSET', KEYS[1], 'epoch', 5, ARGV[1], ARGV[2]) return 1`, []string{name(s, "k")}, typeField+clusters.URL, h.encode())
		}
		sees := func(when string) {
			t.Helper()
			if got := k.head().Generation; got != h.Generation {
				t.Errorf("%s, the node knows generation %d of %d", when, got, h.Generation)
			}
		}
		b.wait(2 * longestRound)
		write()
		b.wait(longestRound)
		sees("in a round")
		write()
		if err := s.Hint(t.Context(), store.HeadHints, fmt.Sprintf(`{"key":"k","type":%q,"head":%q}`, clusters.URL, h.encode())); err != nil {
			t.Fatal(err)
		}
		b.wait(100 * time.Millisecond)
		sees("after a hint")
		b.wait(longestRound)
		write()
		earlier.Store(false)
		b.wait(longestRound)
		sees("after the last earlier node has left")
	})
}

// TestManyChanges: of changes of many keys at once none is missed, with hints and without.
func TestManyChanges(t *testing.T) {
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprint("mute ", mute), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.Mute(mute)
				a, c := b.node("a", Config{}), b.node("b", Config{})
				var owners, followers []*keyed
				for i := range 200 {
					owners, followers = append(owners, a.key(fmt.Sprint(i))), append(followers, c.key(fmt.Sprint(i)))
					owners[i].own()
				}
				for round := range 3 {
					for i, o := range owners {
						if round == 0 || i%(round+1) == 0 {
							o.apply(strings.Repeat("x", round+1))
						}
					}
					b.wait(2*longestRound + time.Second)
					for i, o := range owners {
						followers[i].knows(o, fmt.Sprint("in round ", round))
					}
				}
			})
		})
	}
}
