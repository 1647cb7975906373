package redistest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/xdstest"
)

// slots is how many hash slots a cluster has.
const slots = 16384

// Cluster are the masters of a cluster, each with its share of the slots. They start without
// replicas: while one is down, the whole cluster rejects calls until it is back, or until a replica
// from AddReplica takes over.
type Cluster struct {
	// Masters are the initial masters.
	Masters []*Server

	args  []string
	nodes int // masters and replicas
	buses []int
}

// StartCluster starts a cluster of three masters and waits until all of them agree on the slots.
// args are further lines of the configuration of each server; see [Config].
func StartCluster(t xdstest.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{args: args}
	for range 3 {
		c.Masters = append(c.Masters, c.start(t))
	}
	for i, m := range c.Masters {
		m.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/len(c.Masters), (i+1)*slots/len(c.Masters)-1)
		if i > 0 {
			c.meet(m, c.buses[i])
		}
	}
	c.Await()
	return c
}

// start starts a server that may join a cluster.
func (c *Cluster) start(t xdstest.TB) *Server {
	t.Helper()
	bus, err := holdPort()
	if err != nil {
		t.Fatalf("redis: %v", err)
	}
	t.Cleanup(bus.release)
	c.buses = append(c.buses, bus.port)
	c.nodes++
	return Start(t, Config{Args: append([]string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--repl-diskless-sync-delay", "0",
		"--cluster-port", strconv.Itoa(bus.port), "--cluster-node-timeout", "5000",
	}, c.args...)})
}

// meet adds a server to the cluster.
func (c *Cluster) meet(s *Server, bus int) {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.Addr())
	c.Masters[0].Do("CLUSTER", "MEET", host, port, bus)
}

// AddReplica starts a replica of a master, and waits until it has a copy and all masters know it.
func (c *Cluster) AddReplica(master *Server) *Server {
	t := master.t
	t.Helper()
	r := c.start(t)
	c.meet(r, c.buses[len(c.buses)-1])
	id, _ := master.Do("CLUSTER", "MYID").(string)
	knows := func(s *Server, what string) func() bool {
		return func() bool {
			nodes, _ := s.Do("CLUSTER", "NODES").(string)
			return strings.Contains(nodes, what)
		}
	}
	r.await("to know its master", knows(r, id))
	r.Do("CLUSTER", "REPLICATE", id)
	r.AwaitReplica()
	for _, m := range c.Masters {
		m.await("to know the replica", knows(m, "slave "+id))
	}
	c.Await()
	return r
}

// TakeOver makes a replica the master at once, without the vote and the timeout of the cluster. It
// waits until the masters in witnesses know it.
func (c *Cluster) TakeOver(replica *Server, witnesses ...*Server) {
	replica.t.Helper()
	replica.Do("CLUSTER", "FAILOVER", "TAKEOVER")
	id, _ := replica.Do("CLUSTER", "MYID").(string)
	for _, w := range witnesses {
		w.await("to know the new master", func() bool {
			nodes, _ := w.Do("CLUSTER", "NODES").(string)
			for line := range strings.Lines(nodes) {
				if strings.HasPrefix(line, id+" ") {
					return strings.Contains(line, " master ")
				}
			}
			return false
		})
	}
}

// Await waits until all masters agree that the cluster is complete.
func (c *Cluster) Await() {
	c.Masters[0].t.Helper()
	for _, m := range c.Masters {
		m.await("to be part of the cluster", func() bool {
			info, _ := m.Do("CLUSTER", "INFO").(string)
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", c.nodes))
		})
	}
}

// URL returns the address of one of the masters, from which clients discover the others.
func (c *Cluster) URL() string { return c.Masters[0].URL() }

// Of returns the master that has a name.
func (c *Cluster) Of(name string) *Server {
	c.Masters[0].t.Helper()
	slot, _ := c.Masters[0].Do("CLUSTER", "KEYSLOT", name).(int64)
	return c.Masters[slices.Index([]bool{
		int(slot) < slots/3, int(slot) < 2*slots/3, true,
	}, true)]
}

// IsMaster reports whether the server is a master.
func (s *Server) IsMaster() bool { s.t.Helper(); return s.replicates("role:master") }

// AwaitMaster waits until the server, which is a replica, is the master.
func (s *Server) AwaitMaster() { s.t.Helper(); s.await("to become the master", s.IsMaster) }

// AwaitReplica waits until the server is a replica, and has a copy of its master.
func (s *Server) AwaitReplica() {
	s.t.Helper()
	s.await("to have a copy of the master", func() bool { return s.replicates("master_link_status:up") })
}

// replicates reports whether the replication section of INFO has a line.
func (s *Server) replicates(line string) bool {
	s.t.Helper()
	info, _ := s.Do("INFO", "replication").(string)
	return strings.Contains(info, line)
}

// await waits until cond holds for a server.
func (s *Server) await(what string, cond func() bool) {
	s.t.Helper()
	for began := time.Now(); !cond(); {
		if time.Since(began) > patience {
			s.t.Fatalf("waited %v for %s %s %s, in vain\n%s", patience, s.name, s.Addr(), what, s.out)
		}
		<-time.After(10 * time.Millisecond)
	}
}
