package relay

import (
	"context"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/tier"
	"xdsrelay/shard/lastgood"
)

// addLastGood makes what keeps the last known good state, where it is configured, and
// adds it to cfg.
func (n *Node) addLastGood(cfg *tier.Config) error {
	cfg.Group = func(key aggregation.Key) *cache.Group { return n.cache.GroupOf(key) }
	cfg.Held, cfg.Adopt = n.held, func(key aggregation.Key, node *corev3.Node, held []cache.Snapshot) { n.cache.Adopt(key, node, held) }
	l := n.cfg.LastKnownGood
	if l.Store == config.StoreNone {
		return nil
	}
	log := n.part(logs.LastGood)
	keeper := lastgood.Config{
		Prefix: n.cfg.Tier.Redis.Prefix, Encrypted: n.private, Delay: l.WriteDelay, MaxSize: int(l.MaxSize), Wait: restoreWait(n.cfg.Cache.ConfirmTimeout),
		Unproven: n.unproven, Clock: n.clock, Logger: log, Meter: n.metrics.Meter(),
	}
	if n.store != nil {
		keeper.AwaitHeads = func(ctx context.Context, key string) { n.heads.AwaitRead(ctx, key) }
	}
	var err error
	if l.EncryptionKeysFile != "" {
		if n.keys, err = lastgood.NewKeys(l.EncryptionKeysFile, log); err != nil {
			return fmt.Errorf("last_known_good.encryption_keys_file: %w", err)
		}
		keeper.Keys = n.keys
	} else {
		log.Info("last known good is stored unencrypted and without types that hold secrets, because last_known_good.encryption_keys_file names no key")
	}
	if l.Store == config.StoreRedis {
		keeper.Store = lastgood.NewRedis(n.store, int(l.MaxSize), func(key string) (uint64, bool) { return n.heads.Epoch(key) })
	} else {
		directory, err := lastgood.NewDirectoryOn(n.disk, l.Directory, int(l.MaxSize), log)
		if err != nil {
			return fmt.Errorf("last_known_good.directory: %w", err)
		}
		keeper.Store, n.rollouts.load, n.rollouts.save = directory, directory.Orders, directory.SaveOrders
		n.records = rolloutRecords{directory.Rollouts, directory.SaveRollouts}
	}
	if n.keeper, err = lastgood.New(keeper); err != nil {
		return err
	}
	n.add(part{stop: n.keeper.Close})
	cfg.Restore, cfg.Kept = n.keeper.Restore, n.kept
	cfg.Own = append(cfg.Own, n.keeper.Own) // behind that of heads, who know the epoch
	if l.Store == config.StoreDirectory {
		// Where Redis takes no writes, an owner that has ended stays a member, and no other node
		// becomes the owner.
		cfg.Alone = append(cfg.Alone, n.keeper.Own)
	}
	return nil
}

// kept returns the last known good state of a key. A directory of this node has what it had in memory itself, and
// the time until which that counted as current: the node may have learned since that its connection to the control
// plane had stalled before that. So it never counts as later than what is in memory.
func (n *Node) kept(ctx context.Context, key string) ([]cache.Snapshot, error) {
	all, err := n.keeper.Read(ctx, key)
	if g := n.cache.GroupOf(aggregation.Key(key)); g != nil && n.cfg.LastKnownGood.Store == config.StoreDirectory {
		for _, own := range g.Snapshots() {
			for i := range all {
				if k := &all[i]; k.Type == own.Type && len(own.Resources) > 0 && k.AsOf.After(own.AsOf) {
					k.AsOf = own.AsOf
				}
			}
		}
	}
	return all, err
}

// held returns what this node holds of a key: in memory, or in a directory of its own.
func (n *Node) held(ctx context.Context, key string) (node *corev3.Node, all []cache.Snapshot) {
	if g := n.cache.GroupOf(aggregation.Key(key)); g != nil {
		node, all = g.Node, g.Snapshots()
	}
	if len(all) > 0 || n.keeper == nil || n.cfg.LastKnownGood.Store != config.StoreDirectory {
		return node, all // a Redis is read by whoever needs it
	}
	all, err := n.keeper.Read(ctx, key)
	if err != nil {
		n.part(logs.LastGood).Warn("cannot read the last known good state of a key that another node requested", "key", key, "error", err)
	}
	return node, all
}

// restoreWait is how long a key that is new waits for what was kept of it. Clients do
// not wait longer for that than for the origin.
func restoreWait(hold time.Duration) time.Duration {
	if hold <= 0 {
		return time.Millisecond // the origin is asked at once; what was kept may still come before
	}
	return min(hold, time.Second)
}
