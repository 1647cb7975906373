package hostile

import (
	"fmt"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"xdsrelay/relay/xdstest"
)

// services are attacks on what a node serves beside resources.
var services = []attack{
	{name: "load reports", run: loadReports},
	{name: "health, reflection and client status", run: otherServices, waits: true},
}

const (
	loadMethod    = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"
	watchMethod   = "/grpc.health.v1.Health/Watch"
	checkMethod   = "/grpc.health.v1.Health/Check"
	reflectMethod = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	csdsMethod    = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus"
)

// loadReports reports of ever new clusters, as large as it may.
func loadReports(t *testing.T, s *stage) {
	cc := s.dial(t)
	for p := range size(5, 50) {
		c := open(t, cc, loadMethod)
		for i := range size(20, 500) {
			m := &lrsv3.LoadStatsRequest{Node: xdstest.Node("x", theKey)}
			for j := range 500 {
				m.ClusterStats = append(m.ClusterStats, &endpointv3.ClusterStats{
					ClusterName: fmt.Sprintf("invented-%d-%d-%d-%s", p, i, j, strings.Repeat("c", 1000)), TotalDroppedRequests: 1,
				})
			}
			if c.send(m) != nil {
				break
			}
		}
		if c.over() {
			continue // the origin takes none
		}
		c.close()
	}
	c := open(t, cc, loadMethod)
	_ = c.send([]byte{0xff, 0xff, 0xff})
	<-c.ended
	c = open(t, cc, loadMethod)
	<-c.ended // without a word
}

// otherServices asks what is not for clients, and more than anybody needs.
func otherServices(t *testing.T, s *stage) {
	cc := s.dial(t)
	c := open(t, cc, csdsMethod)
	_ = c.send(&statusv3.ClientStatusRequest{})
	c.refused(t, codes.Unimplemented)
	var calls []*call
	for range size(50, 400) { // a connection has room for a thousand streams
		w := open(t, cc, watchMethod)
		_ = w.send(&healthpb.HealthCheckRequest{Service: "invented"})
		_ = w.CloseSend()
		calls = append(calls, w)
		// Descriptors are hundreds of times as long as what asks for them.
		r := open(t, cc, reflectMethod)
		_ = r.send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "envoy.service.discovery.v3.AggregatedDiscoveryService",
		}})
		r.refused(t, codes.Unimplemented)
	}
	big := open(t, cc, watchMethod)
	_ = big.send(&healthpb.HealthCheckRequest{Service: strings.Repeat("s", 2*maxReceive)})
	big.refused(t, codes.ResourceExhausted, "larger than max")
	for _, c := range calls {
		xdstest.Eventually(t, "an answer", func() bool { return c.count() > 0 || c.over() })
		c.close()
	}
	// Half a request each, and nothing at all.
	w := s.wire(t, false)
	var ids []uint32
	for range size(20, 150) {
		for _, method := range []string{checkMethod, watchMethod} {
			id := w.open(method)
			w.body(id, []byte{0, 0, 0, 0, 10, 1})
			ids = append(ids, id)
		}
		ids = append(ids, w.open(checkMethod), w.open(watchMethod))
	}
	for _, id := range ids {
		w.refused(id, "reset ENHANCE_YOUR_CALM")
	}
	w.close()
}
