package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/tier"
	"xdsrelay/shard"
)

// gauges makes gauges that are read when metrics are.
type gauges struct {
	meter metric.Meter
	all   []metric.Observable
	errs  []error
}

func (g *gauges) whole(name, description string) metric.Int64ObservableGauge {
	made, err := g.meter.Int64ObservableGauge(name, metric.WithDescription(description))
	g.all, g.errs = append(g.all, made), append(g.errs, err)
	return made
}

func (g *gauges) seconds(name, description string) metric.Float64ObservableGauge {
	made, err := g.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	g.all, g.errs = append(g.all, made), append(g.errs, err)
	return made
}

func (g *gauges) share(name, description string) metric.Float64ObservableGauge {
	made, err := g.meter.Float64ObservableGauge(name, metric.WithUnit("1"), metric.WithDescription(description))
	g.all, g.errs = append(g.all, made), append(g.errs, err)
	return made
}

// read makes f answer for all of them.
func (g *gauges) read(f func(o metric.Observer)) error {
	if err := errors.Join(g.errs...); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	_, err := g.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		f(o)
		return nil
	}, g.all...)
	return err
}

// timestamp is the value of a metric of a moment, in seconds since 1970.
func timestamp(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// by is a label with its value.
func by(name, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(name, value)))
}

// tally is what there is of one type, over all keys.
type tally struct{ resources, names, wildcards, subscriptions int64 }

// observeTables adds what the tables hold and what the origins are asked for, by type,
// and the largest keys if the configuration asks for them.
func observeTables(meter metric.Meter, c *cache.Cache, top int) error {
	g := &gauges{meter: meter}
	resources := g.whole("xdsrelay.cache.resources", "Resources of all keys.")
	names := g.whole("xdsrelay.upstream.subscribed_names", "Resource names that all keys subscribe to at control planes or owners.")
	wildcards := g.whole("xdsrelay.upstream.wildcard_subscriptions", "Keys that subscribe to all resources of a type.")
	fullest := g.share("xdsrelay.upstream.names.utilization", "Size of the subscribed names as a fraction of upstream.max_names_size, for the key and type with the most. The node rejects requests that would exceed 1.")
	subscriptions := g.whole("xdsrelay.cache.subscriptions", "Distinct client subscriptions; clients with equal subscriptions share one.")
	disconnected := g.seconds("xdsrelay.cache.oldest_disconnect_timestamp", "Unix time when the key that has been disconnected longest lost its stream; absent while no active key is disconnected.")
	var clients, size metric.Int64ObservableGauge
	if top > 0 {
		clients = g.whole("xdsrelay.key.clients", "Client streams of the keys with the most; exported for telemetry.top_keys keys.")
		size = g.whole("xdsrelay.key.resources", "Resources of the same keys.")
	}
	return g.read(func(o metric.Observer) {
		keys := c.GroupInfos()
		types := make(map[string]*tally)
		var first time.Time // when the key that has been disconnected longest lost its stream
		share := 0.0
		for _, k := range keys {
			if since, down := k.Down(); down && (first.IsZero() || since.Before(first)) {
				first = since
			}
			for _, t := range k.Tables {
				label := resource.TypeLabel(t.TypeURL)
				one := types[label]
				if one == nil {
					one = &tally{}
					types[label] = one
				}
				share = max(share, t.NamesShare)
				one.resources += int64(t.Resources)
				one.names += int64(t.Names)
				one.subscriptions += int64(t.Subscriptions)
				if t.Wildcard {
					one.wildcards++
				}
			}
		}
		if !first.IsZero() {
			o.ObserveFloat64(disconnected, timestamp(first))
		}
		o.ObserveFloat64(fullest, share)
		for label, one := range types {
			with := by("type", label)
			o.ObserveInt64(resources, one.resources, with)
			o.ObserveInt64(names, one.names, with)
			o.ObserveInt64(wildcards, one.wildcards, with)
			o.ObserveInt64(subscriptions, one.subscriptions, with)
		}
		if top <= 0 {
			return
		}
		slices.SortStableFunc(keys, func(a, b cache.GroupInfo) int { return b.Clients - a.Clients })
		for _, k := range keys[:min(top, len(keys))] {
			n := 0
			for _, t := range k.Tables {
				n += t.Resources
			}
			o.ObserveInt64(clients, int64(k.Clients), by("key", k.Key))
			o.ObserveInt64(size, int64(n), by("key", k.Key))
		}
	})
}

// observeTier adds who is in the tier, and where this node gets its keys from.
func (n *Node) observeTier(meter metric.Meter) error {
	g := &gauges{meter: meter}
	members := g.whole("xdsrelay.tier.nodes", "Nodes of the tier that this node sees, itself included: serving, draining, or disconnected (no stream to the control plane).")
	heard := g.seconds("xdsrelay.tier.last_refresh_timestamp", "Unix time when this node last refreshed its view of the tier.")
	keys := g.whole("xdsrelay.tier.keys", "Keys by the source of this node. owner: the control plane. follower: the owner. fallback: the control plane, because the owner is unreachable. for_peers: the control plane, because other nodes follow this node.")
	return g.read(func(o metric.Observer) {
		counts := map[string]int64{"serving": 0, "draining": 0, "disconnected": 0}
		for _, m := range n.members.View().Members() {
			counts[memberState(m)]++
		}
		for state, count := range counts {
			o.ObserveInt64(members, count, by("state", state))
		}
		if at := n.members.Heard(); !at.IsZero() {
			o.ObserveFloat64(heard, timestamp(at))
		}
		places := map[string]int64{"owner": 0, "follower": 0, "fallback": 0, "for_peers": 0}
		for _, p := range n.tier.Places() {
			places[placeLabel(p.State)]++
		}
		for state, count := range places {
			o.ObserveInt64(keys, count, by("state", state))
		}
	})
}

func memberState(m shard.Member) string {
	switch {
	case m.Draining:
		return "draining"
	case m.Cut:
		return "disconnected"
	}
	return "serving"
}

// placeLabel is where a key comes from, as a label.
func placeLabel(state tier.State) string {
	switch state {
	case tier.Alone:
		return "fallback"
	case tier.ForPeers:
		return "for_peers"
	default:
		return string(state)
	}
}
