package fanout

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkFanOut applies one change and sends it to 10,000 clients of one subscription, without a
// transport; their ACKs are not measured.
func BenchmarkFanOut(b *testing.B) {
	const clients = 10_000
	for _, resources := range []int{100, 10_000} {
		for _, delta := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dresources/%s", resources, variant(delta).Value.AsString()), func(b *testing.B) {
				f := newFleet(b, clients, resources, delta)
				v := 0
				var allocs, bytes uint64
				for b.Loop() {
					v++
					built := f.srv.bodies.Built()
					allocs, bytes = subMem(allocs, bytes)
					f.touch(v)
					f.flush()
					allocs, bytes = addMem(allocs, bytes)
					b.StopTimer()
					if n := f.srv.bodies.Built() - built; n != 1 {
						b.Fatalf("%d bodies were built for one change", n)
					}
					f.ack(b)
					b.StartTimer()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(v)/clients, "ns/client")
				b.ReportMetric(float64(allocs)/float64(v)/clients, "allocs/client")
				b.ReportMetric(float64(bytes)/float64(v)/clients, "B/client")
			})
		}
	}
}

func subMem(allocs, bytes uint64) (uint64, uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return allocs - m.Mallocs, bytes - m.TotalAlloc
}

func addMem(allocs, bytes uint64) (uint64, uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return allocs + m.Mallocs, bytes + m.TotalAlloc
}

// BenchmarkAck processes an ACK, from its bytes to the client's new position. SotW has all names
// each time.
func BenchmarkAck(b *testing.B) {
	for _, delta := range []bool{false, true} {
		for _, names := range []int{0, 1000} {
			if delta && names > 0 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%dnames", variant(delta).Value.AsString(), names), func(b *testing.B) {
				ack := acker(b, newFleet(b, 1, 100, delta), names)
				b.ReportAllocs()
				for b.Loop() {
					ack()
				}
			})
		}
	}
}
