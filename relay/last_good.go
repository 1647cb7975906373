package relay

import (
	"fmt"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/tier"
	"xdsrelay/shard/lastgood"
)

// addLastGood makes what keeps the last known good state, where it is configured, and
// adds it to cfg.
func (n *Node) addLastGood(cfg *tier.Config) error {
	l := n.cfg.LastGood
	if l.Store == config.StoreNone {
		return nil
	}
	log := n.part(logs.LastGood)
	keeper := lastgood.Config{
		Prefix: n.cfg.Tier.Redis.Prefix, Encrypted: n.private, Delay: l.Delay, MaxSize: int(l.MaxSize), Wait: restoreWait(n.cfg.Cache.Hold),
		Logger: log, Meter: n.metrics.Meter(),
	}
	var err error
	if l.KeysFile != "" {
		if n.keys, err = lastgood.NewKeys(l.KeysFile, log); err != nil {
			return fmt.Errorf("last_good.keys_file: %w", err)
		}
		keeper.Keys = n.keys
	} else {
		log.Info("the last known good state is kept without encryption, and without types that hold secrets, since last_good.keys_file names no key")
	}
	if l.Store == config.StoreRedis {
		keeper.Store = lastgood.NewRedis(n.store, int(l.MaxSize), func(key string) (uint64, bool) { return n.heads.Epoch(key) })
	} else if keeper.Store, err = lastgood.NewDirectory(l.Directory, int(l.MaxSize), log); err != nil {
		return fmt.Errorf("last_good.directory: %w", err)
	}
	if n.keeper, err = lastgood.New(keeper); err != nil {
		return err
	}
	cfg.Restore = n.keeper.Restore
	cfg.Own = append(cfg.Own, n.keeper.Own) // behind that of heads, who know the epoch
	return nil
}

// restoreWait is how long a key that is new waits for what was kept of it. Clients do
// not wait longer for that than for the origin.
func restoreWait(hold time.Duration) time.Duration {
	if hold <= 0 {
		return time.Millisecond // the origin is asked at once; what was kept may still come before
	}
	return min(hold, time.Second)
}
