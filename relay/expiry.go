package relay

import (
	"slices"
	"strings"
	"sync"
	"time"

	"xdsrelay/relay/ops"

	"go.opentelemetry.io/otel/metric"
)

// expiries are from when until when the certificates are good that this node shows, by
// the section of the configuration that names them. Safe for concurrent use.
type expiries struct {
	mu  sync.Mutex
	all map[string]func() (from, until time.Time) // guarded by mu
}

// watch adds a certificate, of which validity tells from when until when it is good, zero
// where there is none.
func (e *expiries) watch(section string, validity func() (from, until time.Time)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = make(map[string]func() (from, until time.Time))
	}
	e.all[section] = validity
}

// lastShare is the part of a certificate's lifetime, as 1/lastShare, in which it should have been
// renewed: cert-manager renews at a third, and SPIRE at half.
const lastShare = 5

// bad are the certificates that are good no more, not yet, or not for long, by section.
func (e *expiries) bad(now time.Time) (all []ops.BadCertificate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for section, validity := range e.all {
		from, until := validity()
		if !until.IsZero() && (now.Before(from) || until.Sub(now) < until.Sub(from)/lastShare) {
			all = append(all, ops.BadCertificate{Field: section, From: from, Until: until, Expired: !now.Before(until), NotYetValid: now.Before(from)})
		}
	}
	slices.SortFunc(all, func(a, b ops.BadCertificate) int { return strings.Compare(a.Field, b.Field) })
	return all
}

// observe makes the metrics. Reading them looks at the files. Since when a certificate is
// good says, with its end, how long it lives: an hour or a year, and so what is late.
func (e *expiries) observe(meter metric.Meter) error {
	g := &gauges{meter: meter}
	start := g.seconds("xdsrelay.tls.certificate_not_before_timestamp", "Unix time from which the certificate that this node presents is valid.")
	expiry := g.seconds("xdsrelay.tls.certificate_not_after_timestamp", "Unix time at which the certificate that this node presents expires.")
	return g.read(func(o metric.Observer) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for section, validity := range e.all {
			if from, until := validity(); !until.IsZero() {
				o.ObserveFloat64(start, timestamp(from), by("use", section))
				o.ObserveFloat64(expiry, timestamp(until), by("use", section))
			}
		}
	})
}
