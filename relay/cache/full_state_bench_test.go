package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	encode := func(edit func(bodies []*anypb.Any) []*anypb.Any) []byte {
		edited := &discoveryv3.DiscoveryResponse{TypeUrl: msg.TypeUrl, VersionInfo: "other", Nonce: "1", Resources: edit(slices.Clone(msg.Resources))}
		body, err := proto.Marshal(edited)
		if err != nil {
			b.Fatal(err)
		}
		return body
	}
	shuffled := func() []byte {
		return encode(func(bodies []*anypb.Any) []*anypb.Any {
			rand.New(rand.NewPCG(1, uint64(len(bodies)))).Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
			return bodies
		})
	}
	for _, c := range []struct {
		name  string
		wires [2][]byte
	}{
		{"apply", wire},
		{"apply with one more or less", [2][]byte{wire[1], encode(func(bodies []*anypb.Any) []*anypb.Any {
			return slices.Delete(bodies, many/2, many/2+1)
		})}},
		{"apply in another order", [2][]byte{wire[1], shuffled()}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range c.wires { // the measured ones find what these bring
				w.answerFull(b, c.wires[i])
			}
			i := 0
			for b.Loop() {
				if n := w.answerFull(b, c.wires[i%2]); n > 1 {
					b.Fatal(n)
				}
				i++
			}
		})
	}
}
