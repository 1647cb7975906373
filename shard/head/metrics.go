package head

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/resource"
)

// metrics count by outcome and type, never by key.
type metrics struct {
	claims, writes metric.Int64Counter
	behind         metric.Registration
}

func newMetrics(meter metric.Meter, h *Heads) (*metrics, error) {
	var m metrics
	var errs [4]error
	m.claims, errs[0] = meter.Int64Counter("xdsrelay.tier.head.claims",
		metric.WithDescription("Claims of keys in Redis by this node as their owner: ok, or failed (the node retries)."))
	m.writes, errs[1] = meter.Int64Counter("xdsrelay.tier.head.writes",
		metric.WithDescription("Writes of tier heads to Redis: ok; conflict (another node has claimed the key or was faster); failed (the node retries)."))
	var behind metric.Int64ObservableGauge
	behind, errs[2] = meter.Int64ObservableGauge("xdsrelay.tier.generation_lag",
		metric.WithDescription("Generations that this node lacks for the key that is furthest behind the tier head."))
	m.behind, errs[3] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for label, n := range h.behind() {
			o.ObserveInt64(behind, n, metric.WithAttributes(attribute.String("type", label)))
		}
		return nil
	}, behind)
	return &m, errors.Join(errs[:]...)
}

func (m *metrics) close() error { return m.behind.Unregister() }

func (m *metrics) claimed(outcome string) { count(m.claims, outcome, 1) }

func (m *metrics) wrote(outcome string, heads int) { count(m.writes, outcome, heads) }

func count(c metric.Int64Counter, outcome string, n int) {
	c.Add(context.Background(), int64(n), metric.WithAttributes(attribute.String("outcome", outcome)))
}

// behind returns by how many generations this node is behind, at most, by label of the type. Types
// with a table are present with 0.
func (h *Heads) behind() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	most := make(map[string]int64)
	for _, f := range h.followed {
		for _, e := range editions(f.group) {
			url, n := e.Type.URL, int64(0)
			if e.Standing.Behind() {
				n = max(1, int64(f.heads[url].Generation)-int64(f.reached[url]))
			}
			label := resource.TypeLabel(url)
			most[label] = max(most[label], n)
		}
	}
	return most
}
