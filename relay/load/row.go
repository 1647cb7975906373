package load

import (
	"cmp"
	"maps"
	"math"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// row is what was reported of one locality or one endpoint.
type row struct {
	touched bool // reported since the sums were taken last

	// Counters, since then.
	successful, failed, issued uint64
	opened, unopened           uint64 // connections
	metrics                    map[string]metric
	cpu, memory, application   metric

	// Gauges, and how many clients contribute to them.
	inProgress, connections uint64
	holders                 int

	// Of a locality.
	endpoints map[string]*row // by address
	// Of an endpoint.
	address  *corev3.Address
	metadata *structpb.Struct

	spent, extra int64   // see sums.spend; extra is for the metrics
	by           *Client // who is charged spent; nil for nobody
}

// gauge is a client's share in the gauges of a row.
type gauge struct {
	row                     *row
	inProgress, connections uint64
}

// hold adds a client's latest values.
func (r *row) hold(inProgress, connections uint64) gauge {
	r.inProgress += inProgress
	r.connections += connections
	r.holders++
	return gauge{r, inProgress, connections}
}

// release takes them away again. Both ways wrap around, so that no value, however
// large, can leave anything behind.
func (g gauge) release() {
	g.row.inProgress -= g.inProgress
	g.row.connections -= g.connections
	g.row.holders--
}

// metric is a load metric: how many requests had it, and the sum of its values.
type metric struct {
	count uint64
	total float64
}

// plus adds to a metric. ok is false for values that cannot be added up.
func (m metric) plus(count uint64, total float64) (sum metric, ok bool) {
	sum = metric{add(m.count, count), m.total + total}
	if math.IsNaN(sum.total) || math.IsInf(sum.total, 0) {
		return m, false
	}
	return sum, true
}

// Add is a sum that stays at its maximum instead of starting again at 0.
// Add returns the sum of two counters, or the largest one if that is too large.
func Add(a, b uint64) uint64 { return add(a, b) }

func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

func unnamed(m metric) *endpointv3.UnnamedEndpointLoadMetricStats {
	if m == (metric{}) {
		return nil
	}
	return &endpointv3.UnnamedEndpointLoadMetricStats{NumRequestsFinishedWithMetric: m.count, TotalMetricValue: m.total}
}

// takeMetrics returns the named metrics and starts them anew.
func (r *row) takeMetrics() (out []*endpointv3.EndpointLoadMetricStats) {
	for _, name := range slices.Sorted(maps.Keys(r.metrics)) {
		m := r.metrics[name]
		out = append(out, &endpointv3.EndpointLoadMetricStats{
			MetricName: name, NumRequestsFinishedWithMetric: m.count, TotalMetricValue: m.total,
		})
	}
	r.metrics = nil
	return out
}

// takeLocality returns what a row has of a locality, without its endpoints, and
// starts its counters anew.
func (r *row) takeLocality(id localityID) *endpointv3.UpstreamLocalityStats {
	out := &endpointv3.UpstreamLocalityStats{
		Locality: id.message(), Priority: id.priority,
		TotalSuccessfulRequests: r.successful, TotalErrorRequests: r.failed, TotalIssuedRequests: r.issued,
		TotalNewConnections: r.opened, TotalFailConnections: r.unopened,
		TotalRequestsInProgress: r.inProgress, TotalActiveConnections: r.connections,
		CpuUtilization: unnamed(r.cpu), MemUtilization: unnamed(r.memory), ApplicationUtilization: unnamed(r.application),
		LoadMetricStats: r.takeMetrics(),
	}
	r.reset()
	return out
}

// takeEndpoint is takeLocality for an endpoint.
func (r *row) takeEndpoint() *endpointv3.UpstreamEndpointStats {
	out := &endpointv3.UpstreamEndpointStats{
		Address: r.address, Metadata: r.metadata,
		TotalSuccessfulRequests: r.successful, TotalErrorRequests: r.failed, TotalIssuedRequests: r.issued,
		TotalRequestsInProgress: r.inProgress, LoadMetricStats: r.takeMetrics(),
	}
	r.reset()
	return out
}

func (r *row) reset() {
	r.touched, r.successful, r.failed, r.issued, r.opened, r.unopened = false, 0, 0, 0, 0, 0
	r.metrics, r.cpu, r.memory, r.application = nil, metric{}, metric{}, metric{}
}

// localityID is what tells localities of a cluster apart.
type localityID struct {
	region, zone, subZone string
	priority              uint32
	named                 bool // there is a Locality, be it an empty one
}

func localityOf(s *endpointv3.UpstreamLocalityStats) localityID {
	l := s.GetLocality()
	return localityID{l.GetRegion(), l.GetZone(), l.GetSubZone(), s.GetPriority(), l != nil}
}

func (id localityID) message() *corev3.Locality {
	if !id.named {
		return nil
	}
	return &corev3.Locality{Region: id.region, Zone: id.zone, SubZone: id.subZone}
}

func (id localityID) compare(other localityID) int {
	return cmp.Or(cmp.Compare(id.priority, other.priority), cmp.Compare(id.region, other.region),
		cmp.Compare(id.zone, other.zone), cmp.Compare(id.subZone, other.subZone))
}
