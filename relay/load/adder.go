package load

import (
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// adder adds one report.
type adder struct {
	*sums
	by        *Client // who reports; nil for what is given back
	at        time.Time
	endpoints bool // take single endpoints, too
	gauges    bool // rather than counters only

	held    []gauge
	leftOut int
}

// afford is spend that notes what had no room.
func (a *adder) afford(n int64) bool {
	if a.spend(n) {
		return true
	}
	a.leftOut++
	return false
}

func (a *adder) cluster(in *endpointv3.ClusterStats) {
	id := clusterID{in.GetClusterName(), in.GetClusterServiceName()}
	begin := a.at.Add(-min(max(in.GetLoadReportInterval().AsDuration(), 0), maxPeriod))
	c := a.clusters[id]
	if c == nil {
		spent := clusterCost + int64(len(id.name)+len(id.service))
		if !a.afford(spent) {
			return
		}
		c = &cluster{begin: begin, fresh: true, localities: make(map[localityID]*row), spent: spent, by: a.by}
		a.by.charge(spent)
		a.clusters[id] = c
	}
	c.touched = true
	a.inherit(&c.by, c.spent)
	if (c.fresh || !a.gauges) && begin.Before(c.begin) {
		c.begin = begin
	}
	c.dropped = add(c.dropped, in.GetTotalDroppedRequests())
	for _, d := range in.GetDroppedRequests() {
		a.dropped(c, d.GetCategory(), d.GetDroppedCount())
	}
	for _, l := range in.GetUpstreamLocalityStats() {
		a.locality(c, l)
	}
}

// newRow makes a row that the reporting client is charged for.
func (a *adder) newRow(spent int64) *row {
	a.by.charge(spent)
	return &row{spent: spent, by: a.by}
}

// inherit charges the reporting client for what it keeps alive after the client that
// made it has left.
func (a *adder) inherit(by **Client, spent int64) {
	if a.by != nil && (*by == nil || (*by).left) {
		(*by).charge(-spent)
		*by = a.by
		a.by.charge(spent)
	}
}

func (a *adder) dropped(c *cluster, category string, n uint64) {
	if _, known := c.drops[category]; !known {
		cost := entryCost + int64(len(category))
		if !a.afford(cost) {
			return
		}
		c.extra += cost
		a.by.chargeExtra(a.takes, cost)
		if c.drops == nil {
			c.drops = make(map[string]uint64)
		}
	}
	c.drops[category] = add(c.drops[category], n)
}

func (a *adder) locality(c *cluster, in *endpointv3.UpstreamLocalityStats) {
	id := localityOf(in)
	r := c.localities[id]
	if r == nil {
		spent := rowCost + int64(len(id.region)+len(id.zone)+len(id.subZone))
		if !a.afford(spent) {
			return
		}
		r = a.newRow(spent)
		c.localities[id] = r
	}
	r.touched = true
	a.inherit(&r.by, r.spent)
	r.successful = add(r.successful, in.GetTotalSuccessfulRequests())
	r.failed = add(r.failed, in.GetTotalErrorRequests())
	r.issued = add(r.issued, in.GetTotalIssuedRequests())
	r.opened = add(r.opened, in.GetTotalNewConnections())
	r.unopened = add(r.unopened, in.GetTotalFailConnections())
	a.unnamed(&r.cpu, in.GetCpuUtilization())
	a.unnamed(&r.memory, in.GetMemUtilization())
	a.unnamed(&r.application, in.GetApplicationUtilization())
	a.metrics(r, in.GetLoadMetricStats())
	a.hold(r, in.GetTotalRequestsInProgress(), in.GetTotalActiveConnections())
	if a.endpoints {
		for _, e := range in.GetUpstreamEndpointStats() {
			a.endpoint(r, e)
		}
	}
}

func (a *adder) endpoint(in *row, stats *endpointv3.UpstreamEndpointStats) {
	// Deterministic for one build of the program, which is all that is needed.
	address, err := proto.MarshalOptions{Deterministic: true}.Marshal(stats.GetAddress())
	if err != nil {
		a.leftOut++ // cannot be: it was just received
		return
	}
	r := in.endpoints[string(address)]
	if r == nil {
		spent := rowCost + 3*int64(len(address))
		if !a.afford(spent) {
			return
		}
		r = a.newRow(spent)
		r.address = stats.GetAddress()
		if in.endpoints == nil {
			in.endpoints = make(map[string]*row)
		}
		in.endpoints[string(address)] = r
	}
	r.touched = true
	a.inherit(&r.by, r.spent)
	a.metadata(r, stats.GetMetadata())
	r.successful = add(r.successful, stats.GetTotalSuccessfulRequests())
	r.failed = add(r.failed, stats.GetTotalErrorRequests())
	r.issued = add(r.issued, stats.GetTotalIssuedRequests())
	a.metrics(r, stats.GetLoadMetricStats())
	a.hold(r, stats.GetTotalRequestsInProgress(), 0)
}

// metadata keeps the first that came of an endpoint: it is opaque, and belongs
// to the endpoint, not to who reports of it.
func (a *adder) metadata(r *row, m *structpb.Struct) {
	if m == nil || r.metadata != nil {
		return
	}
	if cost := 4 * int64(proto.Size(m)); a.afford(cost) {
		r.by.charge(-r.spent)
		r.spent += cost
		r.metadata = m
		r.by = a.by // the metadata may be the most of it
		r.by.charge(r.spent)
	}
}

func (a *adder) unnamed(m *metric, in *endpointv3.UnnamedEndpointLoadMetricStats) {
	if in == nil {
		return
	}
	sum, ok := m.plus(in.GetNumRequestsFinishedWithMetric(), in.GetTotalMetricValue())
	if !ok {
		a.leftOut++
	}
	*m = sum
}

func (a *adder) metrics(r *row, in []*endpointv3.EndpointLoadMetricStats) {
	for _, m := range in {
		name := m.GetMetricName()
		known, ok := r.metrics[name]
		sum, finite := known.plus(m.GetNumRequestsFinishedWithMetric(), m.GetTotalMetricValue())
		if !finite {
			a.leftOut++
			continue
		}
		if !ok {
			cost := entryCost + int64(len(name))
			if !a.afford(cost) {
				continue
			}
			r.extra += cost
			a.by.chargeExtra(a.takes, cost)
			if r.metrics == nil {
				r.metrics = make(map[string]metric)
			}
		}
		r.metrics[name] = sum
	}
}

// hold notes the client's values of the gauges.
func (a *adder) hold(r *row, inProgress, connections uint64) {
	if !a.gauges || inProgress == 0 && connections == 0 || !a.afford(gaugeCost) {
		return
	}
	a.held = append(a.held, r.hold(inProgress, connections))
}
