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
	resources := g.whole("xdsrelay.cache.resources", "Resources in the tables of all keys.")
	names := g.whole("xdsrelay.cache.demand.names", "Names that origins or owners are asked for, of all keys.")
	wildcards := g.whole("xdsrelay.cache.demand.wildcards", "Keys for which all resources of a type are asked for.")
	fullest := g.share("xdsrelay.cache.demand.names.fullest", "How much of upstream.max_names_size the names of one type of a key take, of all keys and types the most; clients with names beyond 1 are refused.")
	subscriptions := g.whole("xdsrelay.cache.subscriptions", "Different subscriptions of clients; equal ones share one.")
	downFor := g.seconds("xdsrelay.cache.keys.down.age", "Since when the key has been without a stream to an origin that it wants something of, of the active keys the longest; 0 if all have one.")
	var clients, size metric.Int64ObservableGauge
	if top > 0 {
		clients = g.whole("xdsrelay.key.clients", "Client streams of the keys that have the most: as many keys as telemetry.top_keys says, and only if it does.")
		size = g.whole("xdsrelay.key.resources", "Resources of these keys.")
	}
	return g.read(func(o metric.Observer) {
		keys, now := c.GroupInfos(), time.Now()
		types := make(map[string]*tally)
		longest, share := time.Duration(0), 0.0
		for _, k := range keys {
			if since, down := k.Down(); down {
				longest = max(longest, now.Sub(since))
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
		o.ObserveFloat64(downFor, longest.Seconds())
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
	members := g.whole("xdsrelay.tier.members", "Nodes of the tier that this one knows of, with itself: serving, draining, or cut (off from the origin).")
	heard := g.seconds("xdsrelay.tier.members.age", "How long ago that was last known to be so.")
	keys := g.whole("xdsrelay.tier.keys", "Keys by where this node gets them from: the origin, as owner; from the owner (follower); from the origin, since the owner cannot be asked (alone), or since other nodes ask this one (for_peers).")
	return g.read(func(o metric.Observer) {
		counts := map[string]int64{"serving": 0, "draining": 0, "cut": 0}
		for _, m := range n.members.View().Members() {
			counts[memberState(m)]++
		}
		for state, count := range counts {
			o.ObserveInt64(members, count, by("state", state))
		}
		if at := n.members.Heard(); !at.IsZero() {
			o.ObserveFloat64(heard, time.Since(at).Seconds())
		}
		places := map[string]int64{"owner": 0, "follower": 0, "alone": 0, "for_peers": 0}
		for _, p := range n.tier.Places() {
			places[placeLabel(string(p.State))]++
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
		return "cut"
	}
	return "serving"
}

// placeLabel is where a key comes from, as a label.
func placeLabel(state string) string {
	if state == "for peers" {
		return "for_peers"
	}
	return state
}
