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
	outcomeOld         = "old"
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
	m.writes, errs[0] = meter.Int64Counter("xdsrelay.last_good.writes",
		metric.WithDescription("Records of the last known good state: ok, failed (tried again), fenced (another node owns the key, or this one has not claimed it yet), too_large or unencrypted (not kept)."))
	m.bytes, errs[1] = meter.Int64Counter("xdsrelay.last_good.write.size", metric.WithUnit("By"),
		metric.WithDescription("Bytes of the records that were written."))
	m.reads, errs[2] = meter.Int64Counter("xdsrelay.last_good.reads",
		metric.WithDescription("Records of the last known good state: ok, unusable (damaged, or not of this tier and its keys), old (nobody has written them for 30 days), too_large (uncompressed they would be larger than any that is written), and reads of keys that failed."))
	return m, errors.Join(errs[:]...)
}

func (m *metrics) wrote(outcome string) { m.writes.Add(context.Background(), 1, with(outcome)) }
func (m *metrics) read(outcome string)  { m.reads.Add(context.Background(), 1, with(outcome)) }
func (m *metrics) size(bytes int)       { m.bytes.Add(context.Background(), int64(bytes)) }

func with(outcome string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", outcome))
}
