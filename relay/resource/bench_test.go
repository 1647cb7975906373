package resource_test

import (
	"fmt"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/resource"
)

// BenchmarkDecodeReturn: the first request of a client that returns with 100 resources.
func BenchmarkDecodeReturn(b *testing.B) {
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: resource.EndpointURL, InitialResourceVersions: map[string]string{}}
	for i := range 100 {
		name := fmt.Sprintf("key-00001/service-%05d", i)
		req.ResourceNamesSubscribe = append(req.ResourceNamesSubscribe, name)
		req.InitialResourceVersions[name] = "0123456789abcdef0123456789abcdef"
	}
	wire, err := proto.Marshal(req)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var r resource.Request
	for b.Loop() {
		if err := resource.DecodeDeltaRequest(wire, &r); err != nil || r.Held.Len() != 100 {
			b.Fatal(r.Held.Len(), err)
		}
	}
}
