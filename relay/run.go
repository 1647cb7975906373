package relay

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"xdsrelay/relay/events"
	"xdsrelay/shard"
)

// Run serves until ctx ends. Then it drains the clients over the drain time, and stops everything
// that the node has started. It returns nil in that case, whatever the clients did, and an error if
// a port failed. Run is called once.
func (n *Node) Run(ctx context.Context) error {
	defer n.stop()
	if ctx.Err() != nil {
		return nil
	}
	var group sync.WaitGroup
	failed := n.serve(&group)
	n.members.Enter() // every port serves
	n.state.Store(serving)
	n.logServing()
	if n.onServing != nil {
		n.onServing()
	}
	// The background: parts end in their order, not with ctx.
	whole, end := context.WithCancel(context.Background())
	defer end()
	running, endRunning := context.WithCancel(whole)
	defer endRunning()
	n.run(running, whole, &group)
	var err error
	select {
	case <-ctx.Done():
		endRunning()
		n.drain()
	case <-n.asked:
		endRunning()
		n.drain()
	case err = <-failed:
		n.log.Error("cannot serve", "error", err)
	}
	n.state.Store(draining)
	end()
	n.stop()
	group.Wait()
	if err == nil {
		n.log.Info("stopped")
	}
	return err
}

// logServing logs where the node serves, and from which control planes.
func (n *Node) logServing() {
	described := n.origins.describe()
	for _, o := range described[1:] {
		n.log.Info("additional upstream", "name", o.Name, "addresses", strings.Join(o.Where, ","), "kind", o.Kind, "variant", o.Variant,
			"authorities", o.Authorities, "types", o.Types)
	}
	o := described[0]
	n.log.Info("serving", events.Key, events.NodeStarted, "xds", n.describeListeners(), "rest", n.RESTAddr(), "admin", n.AdminAddr(), "metrics", n.MetricsAddr(), "upstream", strings.Join(o.Where, ","), "kind", o.Kind,
		"variant", o.Variant, "rules", len(n.cfg.Aggregation.Rules), "node", n.name, "version", n.version)
}

// Drain makes Run end as if its context had ended. It returns an error where that
// goes on already.
func (n *Node) Drain() error {
	first := false
	n.askOnce.Do(func() {
		if first = n.state.Load() != draining; first {
			close(n.asked)
		}
	})
	if !first {
		return errors.New("the node is already draining")
	}
	return nil
}

// drain hands the keys over to the other nodes, and makes the clients leave: no new connections or
// streams, the live streams ended a few at a time. It takes the drain time and grace at most, and
// what [Node.handOver] takes.
func (n *Node) drain() {
	n.state.Store(draining)
	if n.onDraining != nil {
		n.onDraining()
	}
	n.health.Shutdown()
	d := n.settings.drain()
	n.log.Info("draining", events.Key, events.NodeDraining, "member", n.name, "streams", n.fanout.Count(), "over", d.Duration)
	n.handOver()
	// The background: the context that ended is the reason for all this.
	ctx, cancel := context.WithTimeout(context.Background(), d.Duration+d.Grace)
	defer cancel()
	n.drainParts(ctx)
	n.handOverSamples()
}

// drainStreams ends the streams on the ports for xDS clients, a few at a time over the drain time.
//
// GOAWAY comes first: it ends no stream, but a client whose stream ends then looks for another
// connection, and so for another node. Otherwise this node would refuse it until the end.
func (n *Node) drainStreams(ctx context.Context) {
	d := n.settings.drain()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.grpc.GracefulStop() // ends when the last stream has
	}()
	if err := n.fanout.Drain(ctx, d.Duration); err != nil {
		n.log.Warn("drain time is over: canceling remaining streams", "streams", n.fanout.Count())
	} else {
		// Streams of other services, such as health checks, have the grace time.
		timer := time.NewTimer(d.Grace)
		defer timer.Stop()
		select {
		case <-stopped:
		case <-timer.C:
		}
	}
	n.grpc.Stop()
	<-stopped
}

// What leaving a tier may take once the others know: until they get the keys elsewhere, and until
// they have what they cannot get there.
const (
	handOverTime = 2 * time.Second
	passOnTime   = 5 * time.Second
)

// handOver leaves the tier while everything is still served here: the others find the
// keys' new owners, who take up what the clients then come for. So those that are sent
// away later find it there, and the origin sees a key move once.
func (n *Node) handOver() {
	n.tier.Announce(func(s *shard.Status) { s.Draining = true })
	ctx, cancel := context.WithTimeout(context.Background(), shard.LeaveTime)
	defer cancel()
	if err := n.members.Leave(ctx); err != nil {
		n.log.Warn("the other nodes may not know yet that this node is leaving", "error", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), handOverTime)
	defer cancel()
	if left := n.tier.HandOver(ctx); left > 0 {
		n.log.Warn("some keys were not taken over by other nodes yet", "keys", left)
	}
	ctx, cancel = context.WithTimeout(context.Background(), passOnTime)
	defer cancel()
	if left := n.tier.PassOn(ctx, n.cache.Groups()); left > 0 {
		n.log.Warn("no other node took over the state of some keys; while the control plane is unreachable or empty, clients may find no configuration on other nodes", "keys", left)
	}
}
