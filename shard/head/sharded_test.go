package head

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// passedOn returns how many published messages the servers of a cluster have forwarded to all
// others.
func passedOn(t *testing.T, servers []*redistest.Server) (n int) {
	t.Helper()
	for _, s := range servers {
		info, _ := s.Do("CLUSTER", "INFO").(string)
		if m := regexp.MustCompile(`cluster_stats_messages_publish_sent:(\d+)`).FindStringSubmatch(info); m != nil {
			one, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			n += one
		}
	}
	return n
}

// listeners are nodes of a tier in a cluster that read a head only because of a hint.
type listeners struct {
	*testing.T
	cluster *redistest.Cluster
	owner   *node
	others  []*node
}

// startListeners starts two nodes; the second one uses url. If all subscribe to sharded channels,
// and none is of an earlier version, hints use these.
func startListeners(t *testing.T, cluster *redistest.Cluster, url string, earlier bool) *listeners {
	t.Helper()
	l := &listeners{T: t, cluster: cluster}
	all := func() bool {
		return !earlier && !slices.ContainsFunc(append(l.others, l.owner), func(n *node) bool { return !n.parts.Sharded() })
	}
	b := newNode(t, "b", openMode(t, store.Cluster, url, time.Minute), never, never)
	l.others = append(l.others, b)
	l.owner = newNodeOf(t, "a", openMode(t, store.Cluster, cluster.URL(), time.Minute), Config{
		Every: never, Wait: never, Sweep: never, Sharded: func() bool { return l.owner != nil && all() },
	})
	return l
}

// keys is how many keys change at a time.
const keys = 10

// hear changes keys, and waits until all nodes know it. It returns how often servers of the cluster
// forwarded a message to all others meanwhile.
func (l *listeners) hear(name string) (passed int) {
	l.Helper()
	var owned []*keyed
	followers := make([][]*keyed, keys)
	for i := range keys {
		k := l.owner.key(fmt.Sprint(name, i))
		k.own()
		k.apply("1")
		owned = append(owned, k)
		for _, n := range l.others {
			followers[i] = append(followers[i], n.key(string(k.Key)))
		}
	}
	known := func() {
		for i, k := range owned {
			for _, f := range followers[i] {
				f.sees(k)
			}
		}
	}
	known()
	for _, k := range owned {
		storedSoon(l.owner.cfg.Store, k)
	}
	l.subscribed(owned)
	l.settled()
	before := passedOn(l.T, l.cluster.Masters)
	for _, k := range owned {
		k.apply("2")
	}
	known()
	l.settled() // a node that read a key for another reason knows the head before its hint
	return passedOn(l.T, l.cluster.Masters) - before
}

// subscribed waits until all nodes are subscribed to the parts of keys: a node reads all keys of a
// part when its subscription begins.
func (l *listeners) subscribed(keys []*keyed) {
	l.Helper()
	s := l.owner.cfg.Store
	for _, k := range keys {
		channel := fmt.Sprint(s.Channel(store.HeadHints), ":", bucketOf(string(k.Key)))
		xdstest.Eventually(l, "all nodes to subscribe to "+channel, func() bool {
			n := int64(0)
			for _, m := range l.cluster.Masters {
				if counts, _ := m.Do("PUBSUB", "NUMSUB", channel).([]any); len(counts) == 2 {
					n += counts[1].(int64)
				}
			}
			return n >= int64(len(l.others)+1)
		})
	}
}

// reach waits until all nodes find the servers of keys: they retry no read.
func (l *listeners) reach(name string) {
	l.Helper()
	for _, n := range append(l.others, l.owner) {
		for i := range keys {
			xdstest.Eventually(l, "a key to be reached", func() bool {
				_, err := tryStored(l.T, n.cfg.Store, fmt.Sprint(name, i))
				return err == nil
			})
		}
	}
}

// settled waits until the owner has set all stamps, and so published all hints.
func (l *listeners) settled() {
	l.Helper()
	xdstest.Eventually(l, "all stamps to be set", func() bool {
		l.owner.mu.Lock()
		defer l.owner.mu.Unlock()
		return len(l.owner.unstamped) == 0
	})
}

// TestShardedHints: in a cluster whose servers have sharded channels, nodes with a key are notified
// of its changes, and no server forwards the hint to the others. If one node does not subscribe to
// these channels, or has no right to, hints use the other channels, and all nodes are notified.
func TestShardedHints(t *testing.T) {
	t.Parallel() // mostly waits
	cluster := redistest.StartCluster(t)
	url := cluster.Masters[2].URL()
	for _, m := range cluster.Masters {
		for user, rights := range map[string]string{"without": store.Rights("test"), "with": store.Rights("test") + " " + store.ShardedRights} {
			line := []any{"ACL", "SETUSER", user, "on", ">p"}
			for word := range strings.FieldsSeq(rights) {
				line = append(line, word)
			}
			m.Do(line...)
		}
	}
	as := func(user string) string { return strings.Replace(url, "redis://", "redis://"+user+":p@", 1) }
	for name, one := range map[string]struct {
		url     string
		earlier bool
		sharded bool
	}{
		"all nodes":            {url: url, sharded: true},
		"a user with rights":   {url: as("with"), sharded: true},
		"a user without":       {url: as("without")},
		"a node of an earlier": {url: url, earlier: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := startListeners(t, cluster, one.url, one.earlier)
			if passed := l.hear(name); (passed == 0) != one.sharded {
				t.Errorf("servers passed hints on %d times", passed)
			}
			if got := l.others[0].parts.Sharded(); got != (one.sharded || one.earlier) {
				t.Errorf("subscribed to sharded channels: %t", got)
			}
		})
	}
}

// TestHintsOfOldServers: if servers of a cluster have no sharded channels, or one that takes over
// has none, hints use the other channels.
func TestHintsOfOldServers(t *testing.T) {
	t.Parallel() // mostly waits
	for name, lacks := range map[string][]string{"both": {"SSUBSCRIBE", "SPUBLISH"}, "to publish": {"SPUBLISH"}} {
		t.Run(name, func(t *testing.T) {
			var args []string
			for _, command := range lacks {
				args = append(args, "--rename-command", command, "")
			}
			cluster := redistest.StartCluster(t, args...)
			l := startListeners(t, cluster, cluster.Masters[2].URL(), false)
			if got := l.owner.parts.Sharded(); got != (len(lacks) == 1) {
				t.Errorf("subscribed to sharded channels: %t", got)
			}
			if l.hear(name) == 0 {
				t.Error("no server passed a hint on, so nobody can have heard it")
			}
		})
	}
}

// TestShardedFailover: after a replica has taken over the sharded channels, hints arrive there,
// also if their former server did not end but became a replica.
func TestShardedFailover(t *testing.T) {
	t.Parallel() // mostly waits
	for name, kill := range map[string]bool{"dead": true, "demoted": false} {
		t.Run(name, func(t *testing.T) {
			cluster := redistest.StartCluster(t)
			l := startListeners(t, cluster, cluster.URL(), false)
			channel := l.owner.cfg.Store.ShardedChannel(store.HeadHints)
			master := cluster.Of(channel)
			if stamps := cluster.Of(stampsName(l.owner.cfg.Store)); stamps != master {
				t.Fatal("the sharded channels and the stamps are on different servers")
			}
			l.hear("before")
			replica := cluster.AddReplica(master)
			witnesses := slices.DeleteFunc(slices.Clone(cluster.Masters), func(m *redistest.Server) bool { return m == master })
			if kill {
				master.Kill()
			} else {
				witnesses = cluster.Masters
			}
			cluster.TakeOver(replica, witnesses...)
			holders := []*redistest.Server{replica}
			if !kill {
				holders = append(holders, master) // replicas have sharded channels, too
			}
			xdstest.Eventually(t, "both nodes to subscribe again", func() bool {
				n := int64(0)
				for _, h := range holders {
					if counts, _ := h.Do("PUBSUB", "SHARDNUMSUB", channel).([]any); len(counts) == 2 {
						n += counts[1].(int64)
					}
				}
				return n == 2
			})
			l.cluster.Masters = slices.Concat(witnesses, []*redistest.Server{replica})
			l.reach("after")
			if passed := l.hear("after"); passed > 0 {
				t.Errorf("servers passed hints on %d times", passed)
			}
		})
	}
}
