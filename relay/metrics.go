package relay

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/cache"
)

// observe adds the metrics of the node itself.
func (n *Node) observe() error {
	meter := n.metrics.Meter()
	return errors.Join(observeCache(meter, n.cache, n.version), observeTables(meter, n.cache, n.cfg.Telemetry.TopKeys), n.observeTier(meter), n.observeAgreement(meter), n.certs.observe(meter))
}

// observeCache adds those of all keys together. Nothing is labelled by key.
func observeCache(meter metric.Meter, c *cache.Cache, version string) error {
	build, err := meter.Int64ObservableGauge("xdsrelay.build.info", metric.WithDescription("Always 1; the labels say what runs."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	keys, err := meter.Int64ObservableGauge("xdsrelay.cache.keys", metric.WithDescription("Aggregation keys in memory, by state: active ones have clients or had some within the linger time."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	down, err := meter.Int64ObservableGauge("xdsrelay.cache.keys.down", metric.WithDescription("Active aggregation keys that lack a stream to an origin of which they want something; not those whose first attempt is under way."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	bytes, err := meter.Int64ObservableGauge("xdsrelay.cache.size", metric.WithUnit("By"), metric.WithDescription("What the tables of all keys hold, roughly."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	holds, err := meter.Int64ObservableCounter("xdsrelay.cache.removal.holds", metric.WithDescription("Times that the removals of an origin's answer began to be held back."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	mass, err := meter.Int64ObservableCounter("xdsrelay.cache.mass_removals", metric.WithDescription("Answers of origins that removed most of a complete set, whether that was held back or not."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	removals, err := meter.Int64ObservableGauge("xdsrelay.cache.removals.held", metric.WithDescription("Resources that an origin has removed and that are served all the same, as their removals are held back."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	stale, err := meter.Int64ObservableGauge("xdsrelay.last_good.keys.stale", metric.WithDescription("Aggregation keys with something that was restored from the last known good state, and for which the origin has not answered since."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	labels := metric.WithAttributeSet(attribute.NewSet(attribute.String("version", version), attribute.String("go", runtime.Version())))
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		var active, idle, failing, held, removed, restored int64
		for _, k := range c.GroupInfos() {
			held += k.Bytes
			removed += int64(k.HeldRemovals)
			if k.Stale {
				restored++
			}
			if _, down := k.Down(); down {
				failing++
			}
			if k.Idle {
				idle++
			} else {
				active++
			}
		}
		o.ObserveInt64(build, 1, labels)
		o.ObserveInt64(keys, active, metric.WithAttributes(attribute.String("state", "active")))
		o.ObserveInt64(keys, idle, metric.WithAttributes(attribute.String("state", "idle")))
		o.ObserveInt64(down, failing)
		o.ObserveInt64(bytes, held)
		o.ObserveInt64(holds, int64(c.RemovalsHeld()))
		o.ObserveInt64(mass, int64(c.MassRemovals()))
		o.ObserveInt64(removals, removed)
		o.ObserveInt64(stale, restored)
		return nil
	}, build, keys, down, bytes, holds, mass, removals, stale)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
