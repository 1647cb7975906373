package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"xdsrelay/shard"
)

// Run serves until ctx ends, then sends the clients away over the drain time and
// stops everything that the node has started. It returns nil after such an end,
// whatever the clients did, and an error if serving failed. Run is called once.
func (n *Node) Run(ctx context.Context) error {
	defer n.release()
	if ctx.Err() != nil {
		return nil
	}
	failed := make(chan error, 4+len(n.clients))
	var servers sync.WaitGroup
	for _, p := range n.clients {
		servers.Go(func() {
			if err := n.grpc.Serve(p.listener); err != nil {
				failed <- fmt.Errorf("xDS port %q, %s: %w", p.name, p.listener.Addr(), err)
			}
		})
	}
	if n.peers != nil {
		servers.Go(func() {
			if err := n.peers.server.Serve(n.peers.listener); err != nil {
				failed <- fmt.Errorf("peer port %s: %w", n.PeerAddr(), err)
			}
		})
	}
	if n.polling != nil {
		servers.Go(func() {
			if err := n.polling.server.Serve(n.polling.listener); err != nil {
				failed <- fmt.Errorf("REST port %s: %w", n.RESTAddr(), err)
			}
		})
	}
	if n.http != nil {
		servers.Go(func() {
			if err := n.http.Serve(n.admin); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("admin port %s: %w", n.AdminAddr(), err)
			}
		})
	}
	if n.machines != nil {
		servers.Go(func() {
			if err := n.machines.serve(); err != nil {
				failed <- fmt.Errorf("metrics port %s: %w", n.MetricsAddr(), err)
			}
		})
	}
	n.members.Enter() // every port is bound and served
	n.state.Store(serving)
	described := n.origins.describe()
	for _, o := range described[1:] {
		n.log.Info("another origin", "name", o.Name, "origin", strings.Join(o.Where, ","), "kind", o.Kind, "variant", o.Variant,
			"authorities", o.Authorities, "types", o.Types)
	}
	o := described[0]
	n.log.Info("serving", "xds", n.describeListeners(), "rest", n.RESTAddr(), "admin", n.AdminAddr(), "metrics", n.MetricsAddr(), "origin", strings.Join(o.Where, ","), "kind", o.Kind,
		"variant", o.Variant, "rules", len(n.cfg.Aggregation.Rules), "node", n.name, "version", n.version)

	spread, endSpread := context.WithCancel(context.Background())
	servers.Go(func() { n.newBalancer().run(spread) })
	servers.Go(func() { n.watchLimits(spread) })
	servers.Go(func() { n.origins.watch(spread) })
	servers.Go(func() { n.fanout.RunRechecks(spread) })
	servers.Go(func() { n.watchTrust(spread) })
	servers.Go(func() { n.followSource(spread) })
	servers.Go(func() { n.watchAgreement(spread) })
	defer endSpread()
	watched, endSamples := context.WithCancel(context.Background()) // also while the node drains
	defer endSamples()
	if n.http != nil {
		servers.Go(func() { n.keepSamples(watched) })
	}
	servers.Go(func() { n.tier.WatchPulse(watched, n.cache.Beat, n.slept) })
	var err error
	select {
	case <-ctx.Done():
		endSpread()
		n.drain()
	case <-n.asked:
		endSpread()
		n.drain()
	case err = <-failed:
		n.log.Error("cannot serve any more", "error", err)
	}
	n.state.Store(draining)
	endSpread()
	endSamples()
	n.release()
	servers.Wait()
	if err == nil {
		n.log.Info("stopped")
	}
	return err
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
		return errors.New("the node is draining already")
	}
	return nil
}

// drain hands the keys over to the other nodes and sends the clients away: no new
// connections or streams, the live streams ended a few at a time. It takes the drain
// time and grace at most, and what [Node.handOver] takes.
//
// GOAWAY goes out first: it ends no stream, but makes a client whose stream is
// ended look for another connection, and so for another node, instead of being
// refused on this one until the end.
func (n *Node) drain() {
	n.state.Store(draining)
	n.health.Shutdown()
	d := n.settings.drain()
	n.log.Info("draining", "streams", n.fanout.Count(), "over", d.Time)
	n.handOver()
	// The background: the context that ended is the reason for all this.
	ctx, cancel := context.WithTimeout(context.Background(), d.Time+d.Grace)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.grpc.GracefulStop() // ends when the last stream has
	}()
	var polls sync.WaitGroup
	polls.Go(func() { n.drainPolls(ctx) })
	defer polls.Wait()
	if err := n.fanout.Drain(ctx, d.Time); err != nil {
		n.log.Warn("streams are left after the drain time and are cut off", "streams", n.fanout.Count())
	} else {
		// Others, such as someone who watches the health service, get the grace.
		timer := time.NewTimer(d.Grace)
		defer timer.Stop()
		select {
		case <-stopped:
		case <-timer.C:
		}
	}
	n.grpc.Stop()
	<-stopped
	n.handOverSamples()
}

// What leaving a tier may take: until the others know, until they get the keys elsewhere,
// and until they have what they cannot get there.
const (
	leaveTime    = 2 * time.Second
	handOverTime = 2 * time.Second
	passOnTime   = 5 * time.Second
)

// handOver leaves the tier while everything is still served here: the others find the
// keys' new owners, who take up what the clients then come for. So those that are sent
// away later find it there, and the origin sees a key move once.
func (n *Node) handOver() {
	n.tier.Announce(func(s *shard.Status) { s.Draining = true })
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := n.members.Leave(ctx); err != nil {
		n.log.Warn("the other nodes may not know yet that this one ends", "error", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), handOverTime)
	defer cancel()
	if left := n.tier.HandOver(ctx); left > 0 {
		n.log.Warn("keys are left that other nodes have not taken over yet", "keys", left)
	}
	ctx, cancel = context.WithTimeout(context.Background(), passOnTime)
	defer cancel()
	if left := n.tier.PassOn(ctx, n.cache.Groups()); left > 0 {
		n.log.Warn("no other node took over what this node holds of some keys; while the control plane is unreachable or empty, clients may find no configuration elsewhere", "keys", left)
	}
}

// release ends at once all that there is of the node, in the order in which the
// parts use one another. It may be called again, and on a node half made.
func (n *Node) release() {
	if n.grpc != nil {
		n.grpc.Stop()
	}
	for _, p := range n.clients {
		_ = p.listener.Close() // the server has closed it if it ever served
	}
	n.releasePolling()
	if n.peers != nil {
		n.peers.close()
	}
	if n.loads != nil {
		n.loads.Close() // reports what is left
	}
	if n.cache != nil {
		n.cache.Close()
	}
	if n.pool != nil {
		n.pool.Close()
	}
	n.releaseTier()
	if n.origins != nil {
		n.origins.Close()
	}
	n.releaseAdmin()
	n.releaseWorkloads()
	n.releaseMachinePort()
	if n.metrics != nil {
		n.metrics.Close()
	}
}
