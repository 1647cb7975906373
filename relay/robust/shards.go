package robust

import (
	"slices"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// shards are the servers of a Redis Cluster: three pairs of a master and its replica.
// It belongs to the goroutine of its test.
type shards struct {
	cluster *redistest.Cluster
	pairs   [][2]*redistest.Server
	failed  *redistest.Server // the master that was the last to fail
}

func startShards(t xdstest.TB) *shards {
	t.Helper()
	s := &shards{cluster: redistest.StartCluster(t)}
	for _, m := range s.cluster.Masters {
		s.pairs = append(s.pairs, [2]*redistest.Server{m, s.cluster.AddReplica(m)})
	}
	return s
}

// url names all servers of the start, of which some run at any time.
func (s *shards) url() string {
	url, separator := "redis://"+s.pairs[0][0].Addr(), "?"
	for _, p := range slices.Concat(s.pairs[0][1:], s.pairs[1][:], s.pairs[2][:]) {
		url += separator + "addr=" + p.Addr()
		separator = "&"
	}
	return url
}

// flushRedis empties all servers that take writes.
func (w *World) flushRedis() {
	w.t.Helper()
	if w.shards == nil {
		w.redis.Flush()
		return
	}
	for i := range w.shards.pairs {
		master, _ := w.shards.roles(i)
		master.Flush()
	}
}

// roles are the master and the replica of a pair. Either may be, after a failover.
func (s *shards) roles(pair int) (master, replica *redistest.Server) {
	p := s.pairs[pair]
	if p[1].IsMaster() {
		return p[1], p[0]
	}
	return p[0], p[1]
}

// onRedis does something to all servers.
func onRedis(do func(*redistest.Server)) func(*World, *Node) {
	return func(w *World, _ *Node) {
		if w.shards == nil {
			do(w.redis)
			return
		}
		for _, p := range w.shards.pairs {
			do(p[0])
			do(p[1])
		}
	}
}

// failOver makes a master of the cluster fail, and waits until the others have made its replica
// the master.
func (w *World) failOver(fail func(*redistest.Server)) {
	w.t.Helper()
	master, replica := w.shards.roles(w.random.IntN(len(w.shards.pairs)))
	replica.AwaitReplica()
	w.shards.failed = master
	fail(master)
	replica.AwaitMaster()
}

// rejoin ends the failure, and waits until the server is the replica of the one that has taken
// over, so that it can do so in turn.
func (w *World) rejoin(heal func(*redistest.Server)) {
	w.t.Helper()
	heal(w.shards.failed)
	w.shards.failed.AwaitReplica()
}
