package limit

import (
	"math"
	"runtime/metrics"
	"time"
)

// Indexes of the samples.
const (
	latencies = iota
	liveHeap
	totalMemory
	releasedHeap
	heapObjects
	heapFree
	heapUnused
	memoryLimit
	gcCycles
)

// meter reads measurements of the Go runtime. It is owned by one goroutine.
type meter struct {
	samples []metrics.Sample
	before  []uint64 // counts of the latencies at the last call of lag
}

func newMeter() *meter {
	return &meter{samples: []metrics.Sample{
		latencies:    {Name: "/sched/latencies:seconds"},
		liveHeap:     {Name: "/gc/heap/live:bytes"},
		totalMemory:  {Name: "/memory/classes/total:bytes"},
		releasedHeap: {Name: "/memory/classes/heap/released:bytes"},
		heapObjects:  {Name: "/memory/classes/heap/objects:bytes"},
		heapFree:     {Name: "/memory/classes/heap/free:bytes"},
		heapUnused:   {Name: "/memory/classes/heap/unused:bytes"},
		memoryLimit:  {Name: "/gc/gomemlimit:bytes"},
		gcCycles:     {Name: "/gc/cycles/total:gc-cycles"},
	}}
}

func (m *meter) bytes(i int) uint64 {
	if m.samples[i].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return m.samples[i].Value.Uint64()
}

// read measures, and returns the memory in use.
func (m *meter) read() (u usage) {
	metrics.Read(m.samples)
	u.cycles, u.limit = m.bytes(gcCycles), m.bytes(memoryLimit)
	if u.limit >= math.MaxInt64 {
		u.limit = 0
	}
	// The memory that counts towards the limit, but of the heap only what the last garbage
	// collection left, not what was allocated since. Stacks and the memory of the runtime itself
	// are always in use.
	besides := m.bytes(releasedHeap) + m.bytes(heapObjects) + m.bytes(heapFree) + m.bytes(heapUnused)
	u.used = m.bytes(liveHeap) + m.bytes(totalMemory) - min(besides, m.bytes(totalMemory))
	return u
}

// lag returns the 90th percentile of the goroutine scheduling latency between the last call and the
// last read.
func (m *meter) lag() time.Duration {
	if m.samples[latencies].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := m.samples[latencies].Value.Float64Histogram()
	first := m.before == nil
	if first {
		m.before = make([]uint64, len(h.Counts))
	}
	var total uint64
	for i, n := range h.Counts {
		total += n - m.before[i]
	}
	rest, lag := total/10, 0.0
	for i := len(h.Counts) - 1; i >= 0 && total > 0; i-- {
		n := h.Counts[i] - m.before[i]
		if n > rest {
			lag = max(h.Buckets[i], 0) // the lower bound of the bucket; that of the first is -Inf
			break
		}
		rest -= n
	}
	copy(m.before, h.Counts)
	if first {
		return 0
	}
	return time.Duration(lag * float64(time.Second))
}
