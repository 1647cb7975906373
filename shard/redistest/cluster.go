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

// slots is how many parts the names of a cluster are divided into.
const slots = 16384

// Cluster are masters of one cluster, each with its share of the names and without
// replicas: when one is away, the whole cluster refuses calls until it is back.
type Cluster struct {
	// Masters are its servers.
	Masters []*Server
}

// StartCluster starts a cluster of three masters and waits until all of them agree
// on who has what.
func StartCluster(t xdstest.TB) *Cluster {
	t.Helper()
	c := &Cluster{}
	var buses []int
	for range 3 {
		bus, err := holdPort()
		if err != nil {
			t.Fatalf("redis: %v", err)
		}
		t.Cleanup(bus.release)
		buses = append(buses, bus.port)
		c.Masters = append(c.Masters, Start(t, Config{Args: []string{
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
			"--cluster-port", strconv.Itoa(bus.port), "--cluster-node-timeout", "5000",
		}}))
	}
	for i, m := range c.Masters {
		m.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/len(c.Masters), (i+1)*slots/len(c.Masters)-1)
		if i > 0 {
			host, port, _ := net.SplitHostPort(m.Addr())
			c.Masters[0].Do("CLUSTER", "MEET", host, port, buses[i])
		}
	}
	c.Await()
	return c
}

// Await waits until all masters agree that the cluster is whole.
func (c *Cluster) Await() {
	c.Masters[0].t.Helper()
	for _, m := range c.Masters {
		m.await("to be part of the cluster", func() bool {
			info, _ := m.Do("CLUSTER", "INFO").(string)
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(c.Masters)))
		})
	}
}

// URL names one of the masters; the others can be learned from it.
func (c *Cluster) URL() string { return c.Masters[0].URL() }

// Of is the master that has a name.
func (c *Cluster) Of(name string) *Server {
	c.Masters[0].t.Helper()
	slot, _ := c.Masters[0].Do("CLUSTER", "KEYSLOT", name).(int64)
	return c.Masters[slices.Index([]bool{
		int(slot) < slots/3, int(slot) < 2*slots/3, true,
	}, true)]
}

// await waits until cond holds of a server.
func (s *Server) await(what string, cond func() bool) {
	s.t.Helper()
	for began := time.Now(); !cond(); {
		if time.Since(began) > patience {
			s.t.Fatalf("waited %v for %s %s %s, in vain\n%s", patience, s.name, s.Addr(), what, s.out)
		}
		<-time.After(10 * time.Millisecond)
	}
}
