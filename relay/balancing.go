package relay

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"xdsrelay/relay/balance"
	"xdsrelay/relay/events"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/pause"
	"xdsrelay/shard"
)

// balancer spreads the clients over the nodes: it tells the others how many there are
// here, sends some away where there are too many, and has none taken where there are
// far too many.
type balancer struct {
	// Fixed.
	members  shard.Members
	announce func(func(*shard.Status))
	limits   balance.Limits
	enabled  bool
	lease    time.Duration
	log      *slog.Logger
	// What is done to clients, as [fanout.Server] has it.
	count  func() int
	shed   func(n, most int, why string) int
	limit  func(most int, why string)
	endOld func()
	others func(bool)

	// Owned by run.
	calm     balance.Calm
	pace     balance.Pace
	last     time.Time // when step was called
	told     int       // clients, to the others
	toldAt   time.Time
	shedding bool // as logged
	refusing bool
}

const (
	// balancePause is between two looks at how many clients there are, in the mean. The nodes do
	// not look at the same moment.
	balancePause = time.Second
	// tellPause is how long the others may wait to hear of a small change.
	tellPause = 10 * time.Second
)

// newBalancer makes the node's balancer.
func (n *Node) newBalancer() *balancer {
	b := n.cfg.Tier.Balance
	return &balancer{
		members: n.members, announce: n.tier.Announce, enabled: b.Enabled, lease: n.cfg.Tier.Lease, log: n.part(logs.Tier),
		limits: balance.Limits{Headroom: b.HeadroomPercent, Refuse: b.RefusePercent, Shed: b.ShedPercentPerMinute},
		count:  n.fanout.Count, shed: n.fanout.Shed, limit: n.fanout.Limit, endOld: n.fanout.EndOld, others: n.fanout.Elsewhere,
	}
}

// run goes on until ctx ends.
func (b *balancer) run(ctx context.Context) {
	defer b.limit(0, "")
	b.last = time.Now()
	for pause.For(ctx, pause.Next(balancePause/2)+balancePause/2*time.Duration(rand.N(3))) {
		b.step(time.Now())
	}
}

func (b *balancer) step(now time.Time) {
	elapsed := now.Sub(b.last)
	b.last = now
	b.endOld()
	clients := b.count()
	b.tell(clients, now)
	members := b.members.View().Members()
	b.others(len(members) > 1)
	if !b.enabled {
		return
	}
	if now.Sub(b.members.Heard()) > b.lease {
		b.calm = balance.Calm{} // also when it hears again, numbers are old at first
	}
	if calm := now.Sub(b.calm.Since(members, now)); len(members) < 2 || calm < 2*b.lease {
		b.rest()
		return
	}
	share := balance.ShareOf(members, b.members.Self().Name, clients, b.limits)
	b.refuse(share)
	b.send(share, clients, elapsed)
}

// tell announces how many clients there are.
func (b *balancer) tell(clients int, now time.Time) {
	if clients == b.told || !balance.Notable(b.told, clients) && now.Sub(b.toldAt) < tellPause {
		return
	}
	b.told, b.toldAt = clients, now
	b.announce(func(s *shard.Status) { s.Clients = clients })
}

// rest leaves clients where they are: it is not known where they should be.
func (b *balancer) rest() {
	b.pace = balance.Pace{}
	b.shedding = false
	b.refuse(balance.Share{})
}

func (b *balancer) refuse(share balance.Share) {
	if !share.Full() {
		b.limit(0, "")
		b.refusing = false
		return
	}
	b.limit(share.Most, fmt.Sprintf("this node has its %d clients, of %d on %d nodes: reconnect to another node", share.Most, share.Clients, share.Nodes))
	if over := b.count() >= share.Most; over != b.refusing {
		if b.refusing = over; over {
			b.log.Warn("refusing new streams: other nodes have capacity", "clients", b.count(), "limit", share.Most,
				"nodes", share.Nodes, "all_clients", share.Clients)
		}
	}
}

// send sends clients away that are due.
func (b *balancer) send(share balance.Share, clients int, elapsed time.Duration) {
	surplus := share.Surplus(clients)
	if shedding := surplus > 0; shedding != b.shedding {
		if b.shedding = shedding; shedding {
			b.log.Info("rebalancing clients to other nodes", events.Key, events.ClientsRebalanced, "clients", clients, "surplus", surplus,
				"nodes", share.Nodes, "all_clients", share.Clients)
		}
	}
	n := b.pace.Due(share, clients, b.limits, elapsed, rand.Float64())
	b.shed(n, surplus, fmt.Sprintf("this node has %d clients, of %d on %d nodes: reconnect to another node", clients, share.Clients, share.Nodes))
}
