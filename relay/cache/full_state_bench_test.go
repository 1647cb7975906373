package cache

import (
	"fmt"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
)

// BenchmarkFullState: a control plane sends 100,000 clusters again, because one has changed. The
// reference reads the message and nothing in it.
func BenchmarkFullState(b *testing.B) {
	const many = 100_000
	w := newWorld(b, Config{Wake: func([]*Subscription) {}})
	b.Cleanup(w.cache.Close)
	w.client(clusters, true)
	w.feed.TakeDemand(true, false)
	msg := &discoveryv3.DiscoveryResponse{TypeUrl: clusters.URL, VersionInfo: "1", Nonce: "1"}
	for i := range many {
		body, err := anypb.New(&clusterv3.Cluster{Name: fmt.Sprintf("namespace/service-%05d", i), AltStatName: fmt.Sprintf("%0200d", i)})
		if err != nil {
			b.Fatal(err)
		}
		msg.Resources = append(msg.Resources, body)
	}
	var wire [2][]byte
	for i := range wire {
		body, err := anypb.New(&clusterv3.Cluster{Name: "namespace/service-00007", AltStatName: fmt.Sprint(i)})
		if err != nil {
			b.Fatal(err)
		}
		msg.Resources[7], msg.VersionInfo = body, fmt.Sprint(i)
		if wire[i], err = proto.Marshal(msg); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("envelope", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal(wire[0], new(discoveryv3.DiscoveryResponse)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if r, err := resource.DecodeSotW(wire[0], nil); err != nil || len(r.Resources) != many {
				b.Fatal(err)
			}
		}
	})
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			r, err := resource.DecodeSotW(wire[i%2], w.feed.Earlier)
			if err != nil {
				b.Fatal(err)
			}
			if n := w.feed.Apply(Update{Type: clusters, Resources: r.Resources, Full: true, Version: r.Version}); i > 0 && n != 1 {
				b.Fatal(n)
			}
			i++
		}
	})
}
