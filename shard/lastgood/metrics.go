package lastgood

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The outcomes of a record.
const (
	outcomeOK          = "ok"
	outcomeFailed      = "failed"
	outcomeFenced      = "fenced"
	outcomeTooLarge    = "too_large"
	outcomeUnencrypted = "unencrypted"
	outcomeUnusable    = "unusable"
	outcomeExpired     = "expired"
)

func outcomeOf(err error) string {
	if errors.Is(err, errFenced) || errors.Is(err, errUnclaimed) {
		return outcomeFenced
	}
	return outcomeFailed
}

// metrics count by outcome, never by key.
type metrics struct {
	writes metric.Int64Counter
	bytes  metric.Int64Counter
	reads  metric.Int64Counter
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	m := &metrics{}
	var errs [3]error
	m.writes, errs[0] = meter.Int64Counter("xdsrelay.last_known_good.writes",
		metric.WithDescription("Writes of last known good records. failed: the node retries. fenced: another node owns the key, or this node has not claimed it yet. too_large and unencrypted: not stored."))
	m.bytes, errs[1] = meter.Int64Counter("xdsrelay.last_known_good.written", metric.WithUnit("By"),
		metric.WithDescription("Bytes of last known good records written."))
	m.reads, errs[2] = meter.Int64Counter("xdsrelay.last_known_good.reads",
		metric.WithDescription("Reads of last known good records. unusable: damaged, or not written by this tier with its encryption keys. expired: not written for 30 days. too_large: larger than any record that a node writes, once uncompressed. failed: the store did not return the records of a key."))
	return m, errors.Join(errs[:]...)
}

func (m *metrics) wrote(outcome string) { m.writes.Add(context.Background(), 1, with(outcome)) }
func (m *metrics) read(outcome string)  { m.reads.Add(context.Background(), 1, with(outcome)) }
func (m *metrics) size(bytes int)       { m.bytes.Add(context.Background(), int64(bytes)) }

func with(outcome string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", outcome))
}
