package load

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// TestCheck: a report that cannot be added up is refused, and the error says
// what is wrong where.
func TestCheck(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	metric := []*endpointv3.EndpointLoadMetricStats{{MetricName: long}}
	in := func(l *endpointv3.UpstreamLocalityStats) *endpointv3.ClusterStats { return of("c", l)[0] }
	for want, c := range map[string]*endpointv3.ClusterStats{
		"cluster_stats[1] has no cluster_name":   {},
		"cluster_stats[1]: cluster_name has":     {ClusterName: long},
		"cluster_stats[1]: cluster_service_name": {ClusterName: "c", ClusterServiceName: long},
		"cluster_stats[1]: category": {ClusterName: "c", DroppedRequests: []*endpointv3.ClusterStats_DroppedRequests{
			{Category: long},
		}},
		"cluster_stats[1]: region":      in(&endpointv3.UpstreamLocalityStats{Locality: &corev3.Locality{Region: long}}),
		"cluster_stats[1]: zone":        in(&endpointv3.UpstreamLocalityStats{Locality: &corev3.Locality{Zone: long}}),
		"cluster_stats[1]: sub_zone":    in(&endpointv3.UpstreamLocalityStats{Locality: &corev3.Locality{SubZone: long}}),
		"cluster_stats[1]: metric_name": in(&endpointv3.UpstreamLocalityStats{LoadMetricStats: metric}),
		"metric_name has 4097 bytes, expected at most 4096": in(&endpointv3.UpstreamLocalityStats{
			UpstreamEndpointStats: []*endpointv3.UpstreamEndpointStats{{LoadMetricStats: metric}},
		}),
	} {
		err := Check(append(of("good", zone("z", 1, 1)), c))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
	if err := Check(of("c", zone(strings.Repeat("x", maxName), 1, 1), &endpointv3.UpstreamLocalityStats{})); err != nil {
		t.Errorf("a good report: %v", err)
	}
}
