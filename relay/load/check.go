package load

import (
	"errors"
	"fmt"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// maxName bounds each name in a report, in bytes.
const maxName = 4 << 10

// Check finds out whether a report can be added up: each cluster is named, and
// no name is longer than 4 KiB. The error says what is wrong with which cluster.
func Check(stats []*endpointv3.ClusterStats) error {
	for i, c := range stats {
		if c.GetClusterName() == "" {
			return fmt.Errorf("cluster_stats[%d] has no cluster_name", i)
		}
		if err := checkCluster(c); err != nil {
			return fmt.Errorf("cluster_stats[%d]: %w", i, err)
		}
	}
	return nil
}

func checkCluster(c *endpointv3.ClusterStats) error {
	if err := short("cluster_name", c.GetClusterName()); err != nil {
		return err
	}
	if err := short("cluster_service_name", c.GetClusterServiceName()); err != nil {
		return err
	}
	for _, d := range c.GetDroppedRequests() {
		if err := short("category", d.GetCategory()); err != nil {
			return err
		}
	}
	for _, l := range c.GetUpstreamLocalityStats() {
		at := l.GetLocality()
		err := errors.Join(short("region", at.GetRegion()), short("zone", at.GetZone()),
			short("sub_zone", at.GetSubZone()), checkMetrics(l.GetLoadMetricStats()))
		if err != nil {
			return err
		}
		for _, e := range l.GetUpstreamEndpointStats() {
			if err := checkMetrics(e.GetLoadMetricStats()); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkMetrics(metrics []*endpointv3.EndpointLoadMetricStats) error {
	for _, m := range metrics {
		if err := short("metric_name", m.GetMetricName()); err != nil {
			return err
		}
	}
	return nil
}

func short(field, name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%s has %d bytes, expected at most %d", field, len(name), maxName)
	}
	return nil
}
