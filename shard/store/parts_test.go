package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest/standin"
	"xdsrelay/shard/store"
)

// TestPartsAtOnce: an established subscription follows a part that becomes wanted at once, and many
// parts in a few steps.
func TestPartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const address = "127.0.0.1:6379"
		redis, network := standin.New(), xdstest.NewMemory()
		l, err := network.Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(redis.Close)
		go redis.Serve(l)
		s, _ := open(t, "redis://"+address, func(c *store.Config) { c.Dial = network.Dial })
		parts := store.NewParts()
		hints := s.HintsOf(t.Context(), store.HeadHints, parts)
		heard := make(map[int]time.Duration) // when each part was confirmed
		began := time.Now()
		go func() {
			for h := range hints {
				if h.Missed {
					heard[h.Part] = time.Since(began)
				}
			}
		}()
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		wait(1300 * time.Millisecond)
		if _, is := heard[-1]; !is {
			t.Fatal("no subscription is established")
		}
		for _, part := range []int{3, 4} {
			at := time.Since(began)
			parts.Set(part, true)
			wait(400 * time.Millisecond)
			if after := heard[part] - at; after < 0 || after > 10*time.Millisecond {
				t.Errorf("part %d was subscribed to %v after it was wanted", part, after)
			}
		}
		const many = 100
		for i := range many {
			parts.Set(100+i, true)
			wait(time.Millisecond)
		}
		wait(400 * time.Millisecond)
		if len(heard) != many+3 {
			t.Errorf("%d subscriptions are confirmed, expected %d", len(heard), many+3)
		}
		steps := make(map[time.Duration]bool)
		for part, at := range heard {
			if part >= 100 {
				steps[at] = true
			}
		}
		if len(steps) > 10 {
			t.Errorf("%d parts were subscribed to in %d steps", many, len(steps))
		}
	})
}
