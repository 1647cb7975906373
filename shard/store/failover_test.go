package store_test

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// TestClusterFailover: after a replica of a cluster has taken over, the next few calls find it,
// also if the failed master neither answers nor refuses connections. While calls are not made,
// about one per second is.
func TestClusterFailover(t *testing.T) {
	t.Parallel() // mostly waits
	for _, fault := range []struct {
		name string
		on   func(*redistest.Server)
	}{
		{"dead", (*redistest.Server).Kill},
		{"stopped", (*redistest.Server).Pause},
	} {
		t.Run(fault.name, func(t *testing.T) {
			cluster := redistest.StartCluster(t)
			s, log := open(t, cluster.URL(), func(c *store.Config) { c.Mode, c.Timeout = store.Cluster, 500*time.Millisecond })
			name := s.Name(store.TierHead, "a")
			master := cluster.Of(name)
			replica := cluster.AddReplica(master)
			eventually(t, "a value to be written", func() bool { return s.Set(t.Context(), name, []byte("x"), 0) == nil })
			eventually(t, "the replica to have it", func() bool { return replica.Do("DBSIZE") == int64(1) })
			fault.on(master)
			until(t, s, "calls not to be made", isDown)
			witnesses := slices.DeleteFunc(slices.Clone(cluster.Masters), func(m *redistest.Server) bool { return m == master })
			cluster.TakeOver(replica, witnesses...)

			const most = 4
			made := 0
			eventually(t, "calls to be made again", func() bool {
				v, err := s.Get(t.Context(), name)
				if !isDown(err) {
					made++
				}
				return err == nil && string(v) == "x"
			})
			if made > most {
				t.Errorf("%d calls were made until one found the new master, expected %d at most:\n%s", made, most, log)
			}
		})
	}
}
