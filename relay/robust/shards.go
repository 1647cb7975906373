package robust

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// shards are the servers of a Redis Cluster: three pairs of a master and its replica.
// It belongs to the goroutine of its test.
type shards struct {
	cluster *redistest.Cluster
	pairs   [][2]*redistest.Server
	failed  *redistest.Server // the master that was the last to fail
	longest time.Duration     // that a node did without Redis after a replica took over
}

// redisWithin is how long a node may do without Redis after a replica took over. The product
// promises five seconds; a machine that is busy with all processes of a run takes longer.
const redisWithin = 15 * time.Second

// redisUp is what a node reports of Redis.
var redisUp = regexp.MustCompile(`(?m)^xdsrelay_redis_up(?:\{[^}]*\})? (\S+)$`)

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
	w.awaitRedis()
}

// awaitRedis waits until nodes use Redis again, but for those of which another fault lasts.
func (w *World) awaitRedis() {
	w.t.Helper()
	began := time.Now()
	for _, n := range w.nodes {
		if w.served.faulty[n.name] > 1 { // one is that of Redis
			continue
		}
		for {
			page, err := n.get(context.Background(), "/metrics")
			took := time.Since(began)
			if m := redisUp.FindStringSubmatch(page); err == nil && m != nil && m[1] == "1" {
				w.shards.longest = max(w.shards.longest, took)
				break
			}
			if took > redisWithin {
				w.contradict("Failover", fmt.Sprintf("node %s does without Redis for %s after a replica took over: %v", n.name, took, err))
				return
			}
			<-time.After(50 * time.Millisecond)
		}
	}
}

// rejoin ends the failure, and waits until the server is the replica of the one that has taken
// over, so that it can do so in turn.
func (w *World) rejoin(heal func(*redistest.Server)) {
	w.t.Helper()
	heal(w.shards.failed)
	w.shards.failed.AwaitReplica()
}
