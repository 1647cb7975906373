package relay

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// expiries are until when the certificates are good that this node shows, by the
// section of the configuration that names them. Safe for concurrent use.
type expiries struct {
	mu  sync.Mutex
	all map[string]func() time.Time // guarded by mu
}

// watch adds a certificate, of which until tells when it ends, zero where there is none.
func (e *expiries) watch(section string, until func() time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = make(map[string]func() time.Time)
	}
	e.all[section] = until
}

// observe makes the metric. Reading it looks at the files.
func (e *expiries) observe(meter metric.Meter) error {
	g := &gauges{meter: meter}
	expiry := g.seconds("xdsrelay.tls.certificate.expiry", "When the certificate ends that this node shows, in seconds since 1970.")
	return g.read(func(o metric.Observer) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for section, until := range e.all {
			if at := until(); !at.IsZero() {
				o.ObserveFloat64(expiry, float64(at.Unix()), by("use", section))
			}
		}
	})
}
