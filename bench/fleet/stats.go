package fleet

import (
	"fmt"
	"runtime/debug"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Stats is what the clients have seen. Counts and distributions are those since
// the last [Fleet.Reset], violations and ends those since the beginning.
type Stats struct {
	// Clients is how many were told to connect, Connected how many have their
	// streams and Synced how many hold all that they have to.
	Clients   int   `json:"clients"`
	Connected int64 `json:"connected"`
	Synced    int64 `json:"synced"`

	Responses int64 `json:"responses"`
	Resources int64 `json:"resources"` // in the responses
	Resent    int64 `json:"resent"`    // of these, what the client held already
	Bytes     int64 `json:"bytes"`     // of the responses, without any framing
	ACKs      int64 `json:"acks"`
	NACKs     int64 `json:"nacks"`
	// WireIn and WireOut are all bytes on the connections, HTTP/2 included, TLS
	// not, since the beginning.
	WireIn  int64 `json:"wire_in"`
	WireOut int64 `json:"wire_out"`

	// Propagation is the time from when a change was intended until a client had
	// it: one value for each change, client and type, also for changes that came
	// together with later ones. Troubled is the same for the clients that are
	// slow, stuck, reject or reconnect.
	Propagation Latency `json:"propagation"`
	Troubled    Latency `json:"troubled"`
	// FirstSync is the time from when a client first tried to connect until it
	// held everything.
	FirstSync Latency `json:"first_sync"`

	Violations map[Kind]Violation `json:"violations,omitempty"`
	// Ends counts connections that could not be made ("dial") or ended
	// ("connection") and streams that broke ("stream") or that the server ended,
	// by status, unless it was our doing.
	Ends map[string]End `json:"ends,omitempty"`
}

// Latency is a distribution, in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
	// Histogram is an HdrHistogram of microseconds in its compressed encoding
	// (version 2, base64); see [Latency.Decode]. It is empty if there are no
	// values.
	Histogram string `json:"histogram,omitempty"`
}

// Decode returns the histogram, of microseconds.
func (l *Latency) Decode() (*hdrhistogram.Histogram, error) {
	if l.Histogram == "" {
		return hdrhistogram.New(1, longest, digits), nil
	}
	h, err := hdrhistogram.Decode([]byte(l.Histogram))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	return h, nil
}

func latency(h *hdrhistogram.Histogram, whole bool) (l Latency) {
	if l.Count = h.TotalCount(); l.Count == 0 {
		return l
	}
	ms := func(p float64) float64 { return float64(h.ValueAtPercentile(p)) / 1000 }
	l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max = h.Mean()/1000, ms(50), ms(90), ms(99), ms(99.9), float64(h.Max())/1000
	if whole {
		if b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
			l.Histogram = string(b)
		}
	}
	return l
}

// Stats is what there is now.
func (f *Fleet) Stats() Stats { return f.stats(true) }

// Progress is Stats without the histograms themselves, which are large.
func (f *Fleet) Progress() Stats { return f.stats(false) }

func (f *Fleet) stats(whole bool) Stats {
	total, all := f.total(), newMeter()
	for _, m := range f.meters {
		m.mu.Lock()
		all.propagation.Merge(m.propagation)
		all.troubled.Merge(m.troubled)
		all.sync.Merge(m.sync)
		m.mu.Unlock()
	}
	return Stats{
		Clients: len(f.running()), Connected: f.connected.Load(), Synced: f.synced.Load(),
		Responses: total.responses, Resources: total.resources, Resent: total.resent, Bytes: total.bytes,
		ACKs: total.acks, NACKs: total.nacks, WireIn: f.traffic.In.Load(), WireOut: f.traffic.Out.Load(),
		Propagation: latency(all.propagation, whole), Troubled: latency(all.troubled, whole), FirstSync: latency(all.sync, whole),
		Violations: f.violations.snapshot(), Ends: f.ends.snapshot(),
	}
}

// sum is the counts of all meters.
type sum struct {
	counts
	latest int64
}

func (f *Fleet) total() (t sum) {
	for _, m := range f.meters {
		m.mu.Lock()
		t.responses += m.responses
		t.resources += m.resources
		t.resent += m.resent
		t.bytes += m.bytes
		t.acks += m.acks
		t.nacks += m.nacks
		t.latest = max(t.latest, m.latest)
		m.mu.Unlock()
	}
	return t
}

// Reset begins counts and distributions anew, and gives memory back to the
// system that was needed up to now.
func (f *Fleet) Reset() {
	debug.FreeOSMemory()
	for _, m := range f.meters {
		m.reset()
	}
}

// Expect announces changes at equal intervals; see [Plan].
func (f *Fleet) Expect(p Plan) error { return f.world.expect(p, f.types) }
