package relay

import (
	"crypto/rand"
	"time"

	"xdsrelay/relay/tier"
	"xdsrelay/shard"
)

// buildTier makes this node's part of the tier: where each key comes from.
func (n *Node) buildTier() (err error) {
	n.members = shard.NewSolo(n.self())
	cfg := tier.Config{
		Members: n.members, Origin: n.tierOrigin(), Legs: n.origins.legs, OwnerTimeout: n.cfg.Tier.OwnerTimeout, Logger: n.log,
	}
	if err := n.addLastGood(&cfg); err != nil {
		return err
	}
	n.tier, err = tier.New(cfg)
	return err
}

// self is this node as the others see it.
func (n *Node) self() shard.Member {
	return shard.Member{Name: n.name, Incarnation: rand.Text(), Version: n.version, Since: time.Now()}
}

// tierOrigin is where keys come from that this node owns.
func (n *Node) tierOrigin() tier.Origin {
	o := tier.Origin{Run: n.origins.Run}
	if cp := n.origins.loadOrigin(); cp != nil {
		o.Report = cp.Report
		o.Reach, o.AwaitReady = cp.Reach, cp.AwaitReady
	}
	return o
}

// releaseTier ends the membership.
func (n *Node) releaseTier() {
	if n.tier != nil {
		n.tier.Close()
	}
	if n.keeper != nil {
		n.keeper.Close()
	}
	if n.members != nil {
		n.members.Close()
	}
}
