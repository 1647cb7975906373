package load

import (
	"cmp"
	"maps"
	"slices"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// sums is what was reported and not taken yet. It is not safe for concurrent use.
type sums struct {
	clusters map[clusterID]*cluster
	room     int64   // bytes that may still be held
	budget   *budget // of all keys
	held     int64   // bytes that these sums hold
	takes    uint64  // how often the sums were taken
}

// clusterID is what tells clusters apart: two may have one name of their
// endpoint sets, and clients with one configuration agree on both names.
type clusterID struct{ name, service string }

// cluster is what was reported of one cluster.
type cluster struct {
	begin   time.Time // of the period that is added up
	fresh   bool      // it was not in the report that was taken last
	touched bool      // reported since then
	dropped uint64
	drops   map[string]uint64 // by category

	localities map[localityID]*row

	spent, extra int64   // see sums.spend; extra is for the categories
	by           *Client // who is charged spent; nil for nobody
}

// Roughly what things cost in memory, beside their strings.
const (
	clusterCost = 200
	rowCost     = 300
	entryCost   = 80 // of a map
	gaugeCost   = 24
)

// maxPeriod bounds what is believed of a client that says over how long its
// report was collected.
const maxPeriod = 24 * time.Hour

// spend takes n bytes of what the sums may hold and reports whether there was
// enough.
func (s *sums) spend(n int64) bool {
	if n > s.room || !s.budget.resize(s.held, s.held+n) {
		return false
	}
	s.room -= n
	s.held += n
	return true
}

// refund gives back n bytes that were spent.
func (s *sums) refund(n int64) {
	s.budget.resize(s.held, s.held-n)
	s.room += n
	s.held -= n
}

// report adds what a client reports, at a time, as far as the terms ask for it. It
// returns the client's share in the gauges, and how many things had no room.
func (s *sums) report(by *Client, stats []*endpointv3.ClusterStats, at time.Time, terms *Terms) (held []gauge, leftOut int) {
	a := adder{sums: s, by: by, at: at, endpoints: terms.wantsEndpoints(), gauges: true}
	for _, c := range stats {
		if terms.wants(c.GetClusterName()) {
			a.cluster(c)
		}
	}
	return a.held, a.leftOut
}

// giveBack adds counters that were taken at a time. The gauges were never gone.
func (s *sums) giveBack(stats []*endpointv3.ClusterStats, at time.Time) {
	a := adder{sums: s, at: at, endpoints: true}
	for _, c := range stats {
		a.cluster(c)
	}
}

// release takes a client's share in the gauges away.
func (s *sums) release(held []gauge) {
	for _, g := range held {
		g.release()
	}
	s.refund(int64(len(held)) * gaugeCost)
}

// take returns what was reported, as far as the terms ask for it, and starts
// anew. What was not mentioned for a whole period is forgotten.
func (s *sums) take(now time.Time, terms *Terms) (out []*endpointv3.ClusterStats) {
	s.takes++
	ids := slices.SortedFunc(maps.Keys(s.clusters), func(a, b clusterID) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.service, b.service))
	})
	for _, id := range ids {
		c := s.clusters[id]
		if !terms.wants(id.name) {
			s.forget(id, c)
			continue
		}
		if stats := s.takeCluster(id, c, now, terms.wantsEndpoints()); stats != nil {
			out = append(out, stats)
		}
	}
	return out
}

// clear forgets everything.
func (s *sums) clear() {
	for id, c := range s.clusters {
		s.forget(id, c)
	}
}

func (s *sums) forget(id clusterID, c *cluster) {
	for _, r := range c.localities {
		s.drop(r)
	}
	c.by.charge(-c.spent)
	s.refund(c.spent + c.extra)
	delete(s.clusters, id)
}

// takeCluster is take for one cluster; nil where there is nothing to say.
func (s *sums) takeCluster(id clusterID, c *cluster, now time.Time, endpoints bool) *endpointv3.ClusterStats {
	out := &endpointv3.ClusterStats{
		ClusterName: id.name, ClusterServiceName: id.service, TotalDroppedRequests: c.dropped,
		LoadReportInterval: durationpb.New(now.Sub(c.begin)),
	}
	for _, category := range slices.Sorted(maps.Keys(c.drops)) {
		out.DroppedRequests = append(out.DroppedRequests,
			&endpointv3.ClusterStats_DroppedRequests{Category: category, DroppedCount: c.drops[category]})
	}
	for _, at := range slices.SortedFunc(maps.Keys(c.localities), localityID.compare) {
		r := c.localities[at]
		of := s.takeEndpoints(r, endpoints)
		if r.idle() && len(r.endpoints) == 0 {
			s.drop(r)
			delete(c.localities, at)
			continue
		}
		stats := r.takeLocality(at)
		stats.UpstreamEndpointStats = of
		s.refund(r.extra)
		r.extra = 0
		out.UpstreamLocalityStats = append(out.UpstreamLocalityStats, stats)
	}
	if !c.touched && len(out.UpstreamLocalityStats) == 0 {
		s.forget(id, c)
		return nil
	}
	s.refund(c.extra)
	c.extra = 0
	c.begin, c.fresh, c.touched, c.dropped, c.drops = now, false, false, 0, nil
	return out
}

// takeEndpoints is take for the endpoints of a locality, which are forgotten
// where nobody asks for them.
func (s *sums) takeEndpoints(r *row, asked bool) (out []*endpointv3.UpstreamEndpointStats) {
	for _, at := range slices.Sorted(maps.Keys(r.endpoints)) {
		e := r.endpoints[at]
		if e.idle() || !asked {
			s.drop(e)
			delete(r.endpoints, at)
			continue
		}
		out = append(out, e.takeEndpoint())
		s.refund(e.extra)
		e.extra = 0
	}
	return out
}

// idle reports whether a row has nothing to say.
func (r *row) idle() bool { return !r.touched && r.holders == 0 }

// drop gives back what a row and its endpoints have spent.
func (s *sums) drop(r *row) {
	for _, e := range r.endpoints {
		s.drop(e)
	}
	r.by.charge(-r.spent)
	s.refund(r.spent + r.extra)
}
