package relay_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTierRefusedAfterFlush: if Redis loses everything while a revision is refused and nothing happens to the
// key, the owner writes its record again, so that the next owner shows the revision to no client either.
func TestTierRefusedAfterFlush(t *testing.T) {
	for how, killed := range endings {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := quickPolicy()
				w := orderTier(t, 3, &policy)
				w.origin.Set("demo", w.revision("poison")...)
				w.waits("Held")
				<-time.After(time.Minute)
				before := w.nacks.Load()
				w.redis.Flush()
				<-time.After(10 * time.Second)
				w.ends(w.owner(), killed)
				<-time.After(time.Minute)
				if is := w.nacks.Load(); is != before || before == 0 {
					t.Errorf("clients rejected %d responses at first, and %d after the next owner has begun", before, is)
				}
				w.waits("Held")
				w.all("the stable revision", w.has("a"))
				w.checkAll()
			})
		})
	}
}
