package telemetry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Instrument is a metric that some part of the node has made.
type Instrument struct {
	// Name is the name in OpenTelemetry, Prometheus the name there.
	Name, Prometheus string
	Kind             Kind
	// Unit is a UCUM unit: "By", "s", or "1" for a ratio; empty for counts.
	Unit        string
	Description string
	// Labels are those that measurements may have.
	Labels []Label
}

// Kind is the type of an instrument.
type Kind string

// The kinds, as Prometheus names them.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// seconds are the upper bounds of histograms of time: from half a millisecond, a fast answer within
// one rack, to a minute, the longest time that a client waits.
var seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// recorder is a meter that remembers which instruments it has made. Counters of which
// all labels are known exist from the start: a rate needs the 0 before the first event.
type recorder struct {
	metric.Meter
	labels map[string][]Label // by instrument; fixed

	mu   sync.Mutex
	made map[string]Instrument // guarded by mu
}

func (r *recorder) note(name string, kind Kind, unit, description string) {
	i := Instrument{Name: name, Kind: kind, Unit: unit, Description: description, Labels: r.labels[name], Prometheus: prometheusName(name, unit, kind)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.made = make(map[string]Instrument)
	}
	r.made[name] = i
}

func (r *recorder) instruments() []Instrument {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.made), func(a, b Instrument) int { return cmp.Compare(a.Name, b.Name) })
}

// prometheusName is what the exporter makes of a name.
func prometheusName(name, unit string, kind Kind) string {
	types := map[Kind]otlptranslator.MetricType{
		Counter: otlptranslator.MetricTypeMonotonicCounter, Gauge: otlptranslator.MetricTypeGauge, Histogram: otlptranslator.MetricTypeHistogram,
	}
	namer := otlptranslator.NewMetricNamer("", translation())
	out, err := namer.Build(otlptranslator.Metric{Name: name, Unit: unit, Type: types[kind]})
	if err != nil {
		return ""
	}
	return out
}

// zero returns the label sets with which a counter begins, none where they cannot be
// known or would be many.
func (r *recorder) zero(name string) (sets []attribute.Set) {
	labels, known := r.labels[name]
	switch {
	case !known || len(labels) > 1:
	case len(labels) == 0:
		sets = append(sets, *attribute.EmptySet())
	case len(labels[0].Values) <= 8:
		for _, v := range labels[0].Values {
			sets = append(sets, attribute.NewSet(attribute.String(labels[0].Name, v)))
		}
	}
	return sets
}

func (r *recorder) Int64Counter(name string, options ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	c := metric.NewInt64CounterConfig(options...)
	r.note(name, Counter, c.Unit(), c.Description())
	counter, err := r.Meter.Int64Counter(name, options...)
	if err != nil {
		return nil, err
	}
	for _, set := range r.zero(name) {
		counter.Add(context.Background(), 0, metric.WithAttributeSet(set))
	}
	return counter, nil
}

func (r *recorder) Int64UpDownCounter(name string, options ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	c := metric.NewInt64UpDownCounterConfig(options...)
	r.note(name, Gauge, c.Unit(), c.Description())
	counter, err := r.Meter.Int64UpDownCounter(name, options...)
	if err != nil {
		return nil, err
	}
	for _, set := range r.zero(name) {
		counter.Add(context.Background(), 0, metric.WithAttributeSet(set))
	}
	return counter, nil
}

func (r *recorder) Int64Gauge(name string, options ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	c := metric.NewInt64GaugeConfig(options...)
	r.note(name, Gauge, c.Unit(), c.Description())
	return r.Meter.Int64Gauge(name, options...)
}

func (r *recorder) Float64Histogram(name string, options ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	c := metric.NewFloat64HistogramConfig(options...)
	r.note(name, Histogram, c.Unit(), c.Description())
	if c.Unit() == "s" && c.ExplicitBucketBoundaries() == nil {
		options = append(slices.Clone(options), metric.WithExplicitBucketBoundaries(seconds...))
	}
	return r.Meter.Float64Histogram(name, options...)
}

func (r *recorder) Int64ObservableCounter(name string, options ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	c := metric.NewInt64ObservableCounterConfig(options...)
	r.note(name, Counter, c.Unit(), c.Description())
	return r.Meter.Int64ObservableCounter(name, options...)
}

func (r *recorder) Int64ObservableGauge(name string, options ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	c := metric.NewInt64ObservableGaugeConfig(options...)
	r.note(name, Gauge, c.Unit(), c.Description())
	return r.Meter.Int64ObservableGauge(name, options...)
}

func (r *recorder) Float64ObservableCounter(name string, options ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	c := metric.NewFloat64ObservableCounterConfig(options...)
	r.note(name, Counter, c.Unit(), c.Description())
	return r.Meter.Float64ObservableCounter(name, options...)
}

func (r *recorder) Float64ObservableGauge(name string, options ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	c := metric.NewFloat64ObservableGaugeConfig(options...)
	r.note(name, Gauge, c.Unit(), c.Description())
	return r.Meter.Float64ObservableGauge(name, options...)
}
