package relay

import (
	"context"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"xdsrelay/relay/cache"
)

// telemetry is the node's metrics. They have a registry of their own, so that
// several nodes fit into one process.
type telemetry struct {
	registry *prometheus.Registry
	provider *sdkmetric.MeterProvider
	meter    metric.Meter
}

func newTelemetry(version string) (*telemetry, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(
		resource.NewSchemaless(attribute.String("service.name", "xdsrelay"), attribute.String("service.version", version))))
	return &telemetry{registry: registry, provider: provider, meter: provider.Meter("xdsrelay")}, nil
}

// observe adds the metrics of the node itself. Nothing is labelled by key.
func (t *telemetry) observe(c *cache.Cache, version string) error {
	build, err := t.meter.Int64ObservableGauge("xdsrelay.build.info", metric.WithDescription("Always 1; the labels say what runs."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	keys, err := t.meter.Int64ObservableGauge("xdsrelay.cache.keys", metric.WithDescription("Aggregation keys in memory, by state: active ones have clients or had some within the linger time."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	down, err := t.meter.Int64ObservableGauge("xdsrelay.cache.keys.down", metric.WithDescription("Active aggregation keys without a stream to an origin of which they want something."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	bytes, err := t.meter.Int64ObservableGauge("xdsrelay.cache.size", metric.WithUnit("By"), metric.WithDescription("What the tables of all keys hold, roughly."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	holds, err := t.meter.Int64ObservableCounter("xdsrelay.cache.removal.holds", metric.WithDescription("Times that the removals of an origin's answer began to be held back."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	removals, err := t.meter.Int64ObservableGauge("xdsrelay.cache.removals.held", metric.WithDescription("Resources that an origin has removed and that are served all the same, as their removals are held back."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	stale, err := t.meter.Int64ObservableGauge("xdsrelay.last_good.keys.stale", metric.WithDescription("Aggregation keys with something that was restored from the last known good state, and for which the origin has not answered since."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	labels := metric.WithAttributeSet(attribute.NewSet(attribute.String("version", version), attribute.String("go", runtime.Version())))
	_, err = t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		var active, idle, failing, held, removed, restored int64
		for _, k := range c.Snapshot() {
			held += k.Bytes
			removed += int64(k.HeldRemovals)
			if k.Stale {
				restored++
			}
			switch {
			case k.Idle:
				idle++
			case k.Connected:
				active++
			default:
				active++
				failing++
			}
		}
		o.ObserveInt64(build, 1, labels)
		o.ObserveInt64(keys, active, metric.WithAttributes(attribute.String("state", "active")))
		o.ObserveInt64(keys, idle, metric.WithAttributes(attribute.String("state", "idle")))
		o.ObserveInt64(down, failing)
		o.ObserveInt64(bytes, held)
		o.ObserveInt64(holds, int64(c.RemovalsHeld()))
		o.ObserveInt64(removals, removed)
		o.ObserveInt64(stale, restored)
		return nil
	}, build, keys, down, bytes, holds, removals, stale)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
