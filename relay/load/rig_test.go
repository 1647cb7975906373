package load

import (
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/aggregation"
)

// tb is what both testing and rapid have.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// rig is a collector whose origin is the test.
type rig struct {
	*Collector
	outlets chan running
}

// running is a report and its life.
type running struct {
	*Outlet
	ctx  context.Context
	done chan struct{} // to be closed by the test
}

func newRig(t tb, cfg Config) *rig {
	t.Helper()
	r := &rig{outlets: make(chan running, 100)}
	cfg.Run = func(ctx context.Context, o *Outlet) {
		one := running{o, ctx, make(chan struct{})}
		r.outlets <- one
		<-ctx.Done()
		select {
		case <-one.done:
		case <-r.ctx.Done():
		}
	}
	var err error
	if r.Collector, err = New(cfg); err != nil {
		t.Fatalf("new: %v", err)
	}
	return r
}

func (r *rig) join(key aggregation.Key) *Client {
	return r.Join(key, &corev3.Node{Id: "relay/" + string(key)}, func() {})
}

func asking(interval time.Duration, clusters ...string) *lrsv3.LoadStatsResponse {
	return &lrsv3.LoadStatsResponse{Clusters: clusters, LoadReportingInterval: durationpb.New(interval)}
}

func everything(interval time.Duration) *lrsv3.LoadStatsResponse {
	return &lrsv3.LoadStatsResponse{SendAllClusters: true, ReportEndpointGranularity: true, LoadReportingInterval: durationpb.New(interval)}
}

func mustAsk(t tb, o *Outlet, rsp *lrsv3.LoadStatsResponse) *Terms {
	t.Helper()
	terms, err := o.Ask(rsp)
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	return terms
}

// taken is what a Take says, in one list.
func taken(o *Outlet) (all []*endpointv3.ClusterStats) {
	for _, r := range o.Take() {
		all = append(all, r.GetClusterStats()...)
	}
	return all
}

// of is a report of one cluster with the given localities.
func of(cluster string, localities ...*endpointv3.UpstreamLocalityStats) []*endpointv3.ClusterStats {
	return []*endpointv3.ClusterStats{{ClusterName: cluster, UpstreamLocalityStats: localities}}
}

// zone is what is reported of a zone.
func zone(name string, issued, inProgress uint64) *endpointv3.UpstreamLocalityStats {
	return &endpointv3.UpstreamLocalityStats{
		Locality: &corev3.Locality{Zone: name}, TotalIssuedRequests: issued, TotalRequestsInProgress: inProgress,
	}
}

func address(host string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: host}}}
}
