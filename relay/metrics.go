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
	return errors.Join(observeCache(meter, n.cache, n.version), observeTables(meter, n.cache, n.cfg.Telemetry.TopKeys), n.observeTier(meter), n.observeAgreement(meter), n.observeRollouts(meter), n.observeRolloutEvents(meter), n.certs.observe(meter))
}

// observeCache adds those of all keys together. Nothing is labelled by key.
func observeCache(meter metric.Meter, c *cache.Cache, version string) error {
	build, err := meter.Int64ObservableGauge("xdsrelay.build.info", metric.WithDescription("Always 1; the labels have the version of the program and of Go."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	keys, err := meter.Int64ObservableGauge("xdsrelay.cache.keys", metric.WithDescription("Aggregation keys in memory: active (with clients, or within cache.linger after the last client) or idle."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	down, err := meter.Int64ObservableGauge("xdsrelay.cache.disconnected_keys", metric.WithDescription("Active aggregation keys without a stream to an upstream that they need. Keys whose first connection attempt is in progress do not count."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	bytes, err := meter.Int64ObservableGauge("xdsrelay.cache.size", metric.WithUnit("By"), metric.WithDescription("Approximate size of the resources of all keys."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	holds, err := meter.Int64ObservableCounter("xdsrelay.removal_guard.holds", metric.WithDescription("Upstream responses whose removals the removal guard held back."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	mass, err := meter.Int64ObservableCounter("xdsrelay.removal_guard.mass_removals", metric.WithDescription("Upstream responses that removed most of a complete set, held back or not."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	removals, err := meter.Int64ObservableGauge("xdsrelay.removal_guard.held_resources", metric.WithDescription("Resources that the control plane removed and the node still serves, because the removal guard holds the removals back."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	stale, err := meter.Int64ObservableGauge("xdsrelay.last_known_good.unconfirmed_keys", metric.WithDescription("Aggregation keys with content restored from last known good that the control plane has not confirmed."))
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
