package relay

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/events"
)

// TestCertificateEvents: a certificate that is about to expire and one that has expired are events,
// once each, and again after it was renewed.
func TestCertificateEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorded := events.New(nil)
		n := &Node{logger: slog.New(recorded.Handler(slog.DiscardHandler))}
		from := time.Now()
		until := from.Add(20 * time.Hour)
		n.certs.watch("listener", func() (time.Time, time.Time) { return from, until })
		look := func(after time.Duration) {
			time.Sleep(after) //nolint:forbidigo // virtual time
			for range 2 {
				n.noteCertificates(n.certs.bad(time.Now()))
			}
		}
		look(15 * time.Hour)
		look(2 * time.Hour) // the last fifth of its life
		look(3*time.Hour + 30*time.Minute)
		until = until.Add(20 * time.Hour)
		look(time.Hour)
		look(17*time.Hour + 30*time.Minute)
		var kinds []events.Kind
		for _, e := range recorded.After(nil, time.Time{})[0].Events {
			kinds = append(kinds, e.Kind)
		}
		if want := []events.Kind{events.CertificateExpiring, events.CertificateExpired, events.CertificateExpiring}; !slices.Equal(kinds, want) {
			t.Errorf("the events are %q, expected %q", kinds, want)
		}
	})
}
