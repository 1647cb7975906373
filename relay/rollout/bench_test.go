package rollout

import (
	"testing"
	"unsafe"
)

// BenchmarkStep counts 10,000 clients, and chooses 100 canaries and the control group.
func BenchmarkStep(b *testing.B) {
	clients := fleet(10_000, 3, "salt")
	b.ReportAllocs()
	for b.Loop() {
		choose(clients, 1, 100, 1, Roster{}, Roster{})
	}
}

// BenchmarkNext asks a key in a bake what to do.
func BenchmarkNext(b *testing.B) {
	r := newRig(Preset(Standard), 1000)
	r.send(1)
	r.sleep(1e9)
	b.ReportAllocs()
	b.ReportMetric(float64(unsafe.Sizeof(*r.Key)), "B/key")
	for b.Loop() {
		r.Next(&r.view, r.now)
	}
}

// BenchmarkHash makes the hash of a client.
func BenchmarkHash(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		HashOf("0123456789abcdef", "shop/web", "envoy-7f9c6d-x2x8p", "spiffe://example.org/ns/shop/sa/web")
	}
}
