package relay

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/series"
)

// samples are what the node was like over the last hour, for the live page. They are
// read off the metrics, so serving clients costs nothing more.
type samples struct {
	began time.Time // of a clock that only goes on; fixed
	mu    sync.Mutex
	// Guarded by mu.
	ring   series.Ring
	bounds []float64
	failed bool // the metrics could not be read when that was last tried
}

func (s *samples) totals() series.Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ring.Totals()
}

// took is how long updates took to the clients of this node.
func (s *samples) took(now time.Time) series.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ring.Counts(now.Unix())
}

func (s *samples) after(since int64) series.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return series.Part{Bounds: s.bounds, Samples: s.ring.After(since)}
}

// note adds one of a moment.
func (s *samples) note(now time.Time, is series.Now, totals series.Totals) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds = totals.Bounds
	s.ring.Add(series.Moment{Wall: float64(now.UnixMilli()) / 1e3, Steady: now.Sub(s.began).Seconds()}, is, totals)
}

// reads notes whether the metrics could be read, and reports whether that is news.
func (s *samples) reads(ok bool) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = s.failed == ok
	s.failed = !ok
	return news
}

// sample adds one now. If the metrics cannot be read, or only a part of them, there is
// none: a number that is missing would be taken for nothing, and then for much.
func (n *Node) sample() { n.sampleOf(n.metrics.Own()) }

func (n *Node) sampleOf(metrics prometheus.Gatherer) {
	n.board.Look() // so that updates are noted while nobody looks
	n.lookForStrays()
	n.lookForWarnings()
	totals, err := n.readTotals(metrics)
	switch news := n.samples.reads(err == nil); {
	case err != nil && news:
		n.log.Error("the metrics cannot be read: the last hour of the live page has a gap", "error", err)
	case news:
		n.log.Info("the metrics can be read again")
	}
	if err != nil {
		return
	}
	sums := n.own().Sums()
	others, _ := n.everybody().Others()
	is := series.Now{Clients: sums.Clients, Members: len(others) + 1}
	for i, s := range ops.States() {
		is.States[i] = sums.States[s]
	}
	n.samples.note(time.Now(), is, totals)
}

// keepSamples takes one at each multiple of the step, until ctx ends.
func (n *Node) keepSamples(ctx context.Context) {
	const step = series.Step * time.Second
	n.sample()
	for {
		now := time.Now()
		timer := time.NewTimer(now.Truncate(step).Add(step).Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			n.sample()
			n.copySamples(ctx)
		}
	}
}

// The label of traffic between nodes, which is neither a control plane's nor a client's.
const labelVariant, peerNode = "variant", "peer"

// readTotals reads the metrics that samples are made of.
func (n *Node) readTotals(metrics prometheus.Gatherer) (t series.Totals, err error) {
	families, err := metrics.Gather()
	if err != nil {
		return t, err
	}
	called := make(map[string]string) // OpenTelemetry's names by those of Prometheus
	for _, i := range n.metrics.Instruments() {
		called[i.Prometheus] = i.Name
	}
	whole := map[string]*int64{
		"xdsrelay.upstream.streams": &t.StreamsIn, "xdsrelay.downstream.streams": &t.StreamsOut,
		"xdsrelay.upstream.received": &t.BytesIn, "xdsrelay.downstream.sent": &t.BytesOut,
		"xdsrelay.upstream.responses": &t.ResponsesIn, "xdsrelay.downstream.responses": &t.ResponsesOut,
		"xdsrelay.downstream.acknowledgments": &t.Nacks,
	}
	for _, f := range families {
		name := called[f.GetName()]
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			switch sum := whole[name]; {
			case labels[labelVariant] == peerNode:
			case name == "xdsrelay.downstream.acknowledgments" && labels["outcome"] != "nack":
			case sum != nil:
				*sum += int64(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			case name == "xdsrelay.downstream.propagation.duration":
				buckets, before := m.GetHistogram().GetBucket(), uint64(0)
				if t.Bounds == nil {
					for _, b := range buckets {
						t.Bounds = append(t.Bounds, b.GetUpperBound())
					}
					t.Took = make([]uint64, len(buckets)+1)
				}
				for i, b := range buckets {
					t.Took[i] += b.GetCumulativeCount() - before
					before = b.GetCumulativeCount()
				}
				t.Took[len(buckets)] += m.GetHistogram().GetSampleCount() - before
			}
		}
	}
	return t, nil
}
