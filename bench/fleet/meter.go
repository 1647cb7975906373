package fleet

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold microseconds, up to an hour, with three digits.
const (
	longest = int64(time.Hour / time.Microsecond)
	digits  = 3
)

// counts are what a meter counts.
type counts struct {
	responses, resources, resent, bytes, acks, nacks, requests int64
}

// meter measures a part of the clients, so that they do not wait for each
// other.
type meter struct {
	mu sync.Mutex
	// Guarded by mu.
	counts
	propagation *hdrhistogram.Histogram // of clients that read and accept all
	troubled    *hdrhistogram.Histogram // of the others
	sync        *hdrhistogram.Histogram
	latest      int64 // when the last response came, in ns since 1970
}

func newMeter() *meter {
	h := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, digits) }
	return &meter{propagation: h(), troubled: h(), sync: h()}
}

// record notes a duration in nanoseconds. One that is negative, because clocks
// were set, counts as nothing.
func record(h *hdrhistogram.Histogram, nanos int64) {
	_ = h.RecordValue(min(max(nanos/1000, 0), longest))
}

// response counts a response that came at a time.
func (m *meter) response(at int64, bytes int, b *body, s *step, r role) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.responses++
	m.bytes += int64(bytes)
	m.latest = max(m.latest, at)
	if b == nil {
		return
	}
	m.resources += int64(len(b.items))
	if s == nil {
		return
	}
	m.resent += int64(s.resent)
	h := m.propagation
	if r != normal {
		h = m.troubled
	}
	for _, due := range s.due {
		record(h, at-due)
	}
}

// answered counts the requests that followed a response.
func (m *meter) answered(acks, nacks, requests int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acks += acks
	m.nacks += nacks
	m.requests += requests
}

func (m *meter) synced(after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record(m.sync, int64(after))
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts = counts{}
	m.propagation.Reset()
	m.troubled.Reset()
	m.sync.Reset()
}
