package head

import (
	"fmt"
	"testing"
	"time"

	"xdsrelay/relay/resource"
	"xdsrelay/shard/store"
)

// stampIn returns the stamp of the bucket of a key in Redis.
func stampIn(t *testing.T, s *store.Store, key string) string {
	t.Helper()
	r, err := s.Run(t.Context(), read, []string{stampsName(s)})
	if err != nil {
		t.Fatal(err)
	}
	now, err := stampsIn(r)
	if err != nil {
		t.Fatal(err)
	}
	return now.buckets[bucketOf(key)]
}

// publish publishes a hint about the bucket of a key, several times.
func (b *bubble) publish(s *store.Store, key, hint string, times int) {
	b.t.Helper()
	b.run(s, `for i = 1, tonumber(ARGV[3]) do redis.call('PUBLISH', ARGV[1], ARGV[2]) end return 1`, []string{name(s, key)},
		s.PartChannel(store.HeadHints, bucketOf(key)), hint, times)
}

// TestForgedExplanations: no forged hint, even with knowledge of all stamps, makes a node skip a
// head that it has not read, if the real hint was lost.
func TestForgedExplanations(t *testing.T) {
	for name, forge := range map[string]func(before, now string) []string{
		"from the stamp before to the new one": func(before, now string) []string {
			return []string{before + " " + now + " []", before + " " + now + " null", before + " " + now + ` ["another key"]`}
		},
		"in steps": func(before, now string) []string {
			return []string{before + " x []", stampOf(before+" x []") + " " + now + " []", "x " + now + " []"}
		},
		"from no stamp": func(_, now string) []string { return []string{" " + now + " []"} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				owner, follower := b.pair(Config{})
				s := b.open()
				for i := range 5 { // a round of the follower may be due just then
					before := stampIn(t, s, "k")
					b.Mute(true)
					owner.apply(fmt.Sprint("changed ", i))
					b.wait(50 * time.Millisecond)
					b.Mute(false)
					now := stampIn(t, s, "k")
					if now == before {
						t.Fatal("the stamp is the same: the test tests nothing")
					}
					for _, hint := range forge(before, now) {
						b.publish(s, "k", hint, 1)
					}
					b.wait(longestRound + time.Second)
					follower.knows(owner, "after forged hints")
				}
			})
		})
	}
}

// TestForgedBefore: a forged hint that leads to a stamp that Redis does not have costs a read of
// the bucket, and hides no later change.
func TestForgedBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		owner, follower := b.pair(Config{})
		s := b.open()
		b.publish(s, "k", stampIn(t, s, "k")+" x []", 1)
		b.wait(50 * time.Millisecond)
		b.Mute(true)
		owner.apply("2")
		b.wait(longestRound + time.Second)
		follower.knows(owner, "after a forged hint")
	})
}

// TestHintsCost: however many forged hints are published at once, and whatever they contain, a node
// that has the key asks Redis a few times, and at most 100 times per second.
func TestHintsCost(t *testing.T) {
	const hints = 1000
	inBubble(t, func(t *testing.T, b *bubble) {
		b.pair(Config{})
		s := b.open()
		for name, hint := range map[string]string{
			"the key": `x y ["k"]`, "another key": `x y ["another key"]`, "no key": "x y []", "no hint": "{",
		} {
			before := b.Calls()["EVALSHA"]
			b.publish(s, "k", hint, hints)
			b.wait(time.Second)
			// Two nodes read the key twice, and miss so many hints that they read all stamps.
			if n := b.Calls()["EVALSHA"] - before; n > 16 {
				t.Errorf("%d hints about %s cost %d scripts", hints, name, n)
			}
			b.wait(time.Minute + 2*longestRound)
		}
		before := b.Calls()["EVALSHA"]
		for range hints {
			b.publish(s, "k", `x y ["k"]`, 1)
			b.wait(time.Millisecond)
		}
		// Two nodes read the key once in ten milliseconds, and have rounds.
		if n := b.Calls()["EVALSHA"] - before - hints; n > 2*hints/10+10 {
			t.Errorf("%d hints, one each millisecond, cost %d scripts", hints, n)
		}
	})
}

// TestHigherForgotten: numbers that leave no room for higher ones keep no node from the real head
// for longer than a few rounds, although its stamp does not change again.
func TestHigherForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		owner, follower := b.pair(Config{Wait: time.Millisecond})
		s := b.open()
		forged := owner.head()
		forged.Epoch, forged.Digest, forged.Owner = maxNumber-1, resource.Digest{1}, "stranger"
		b.run(s, `redis.call('HSET', KEYS[1], 'epoch', ARGV[1], ARGV[2], ARGV[3]) return 1`, []string{name(s, "k")},
			fmt.Sprint(forged.Epoch), typeField+clusters.URL, forged.encode())
		b.publish(s, "k", `x y ["k"]`, 1)
		b.wait(50 * time.Millisecond)
		if follower.head().Epoch != forged.Epoch {
			t.Fatalf("the follower knows %+v: the test tests nothing", follower.head())
		}
		b.wait(20*time.Second + 2*longestRound)
		follower.knows(owner, "after the owner has replaced a forged head")
		owner.knows(owner, "after it has replaced a forged head")
	})
}
