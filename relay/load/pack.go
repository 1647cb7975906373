package load

import (
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
)

// pack puts stats into as few requests as there can be of at most limit bytes.
// Whatever has to be split, each number is in one request only.
func pack(stats []*endpointv3.ClusterStats, limit int) []*lrsv3.LoadStatsRequest {
	const overhead = 8 // of an element in its list
	last := &lrsv3.LoadStatsRequest{}
	out, size := []*lrsv3.LoadStatsRequest{last}, 0
	for _, whole := range stats {
		for _, c := range divide(whole, limit-overhead) {
			n := proto.Size(c) + overhead
			if size > 0 && size+n > limit {
				last, size = &lrsv3.LoadStatsRequest{}, 0
				out = append(out, last)
			}
			last.ClusterStats = append(last.ClusterStats, c)
			size += n
		}
	}
	return out
}

// divide splits the stats of a cluster by localities, and a single locality by
// its endpoints, until no part is larger than limit or cannot be split further.
func divide(c *endpointv3.ClusterStats, limit int) []*endpointv3.ClusterStats {
	if proto.Size(c) <= limit {
		return []*endpointv3.ClusterStats{c}
	}
	rest := &endpointv3.ClusterStats{
		ClusterName: c.GetClusterName(), ClusterServiceName: c.GetClusterServiceName(), LoadReportInterval: c.GetLoadReportInterval(),
	}
	switch l := c.GetUpstreamLocalityStats(); {
	case len(l) > 1:
		half := len(l) / 2
		c.UpstreamLocalityStats, rest.UpstreamLocalityStats = l[:half:half], l[half:]
	case len(l) == 1 && len(l[0].GetUpstreamEndpointStats()) > 1:
		e := l[0].GetUpstreamEndpointStats()
		half := len(e) / 2
		l[0].UpstreamEndpointStats = e[:half:half]
		rest.UpstreamLocalityStats = []*endpointv3.UpstreamLocalityStats{{
			Locality: l[0].GetLocality(), Priority: l[0].GetPriority(), UpstreamEndpointStats: e[half:],
		}}
	default:
		return []*endpointv3.ClusterStats{c}
	}
	return append(divide(c, limit), divide(rest, limit)...)
}
