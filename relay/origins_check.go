package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/metric/noop"

	"xdsrelay/relay/config"
	"xdsrelay/upstream"
)

// CheckOrigins finds out what can be known of the origins without serving from
// them: everything that is wrong with the files of directories. Origins are
// otherwise not contacted.
func CheckOrigins(cfg *config.Config) error {
	var errs []error
	check := func(o config.Upstream) {
		if o.Directory != "" {
			errs = append(errs, upstream.CheckDirectory(o.Directory))
		}
	}
	for _, o := range cfg.AllUpstreams() {
		check(o.Upstream)
	}
	return errors.Join(errs...)
}

// CheckConnections connects with each server of each control plane that cfg names, with
// TLS where it is configured, and opens a stream of xDS on which it asks for nothing. It
// calls report for each that works, and for the Redis of the tier, in which it tries all
// that a node needs. The error names each server that does not work, and says at which
// step it failed.
func CheckConnections(ctx context.Context, cfg *config.Config, report func(section, address string)) error {
	n := &Node{cfg: cfg, logger: slog.New(slog.DiscardHandler)}
	defer n.stop()
	var errs []error
	check := func(section string, o config.Upstream) {
		if o.Directory != "" {
			return
		}
		to, err := controlPlaneConfig(section, o, n.originCredentials, nil, n.logger)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", section, err))
			return
		}
		cp, err := upstream.NewControlPlane(to)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", section, err))
			return
		}
		defer cp.Close()
		cp.Try(ctx, func(address string, err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", section, address, err))
				return
			}
			report(section, address)
		})
	}
	for i, o := range cfg.AllUpstreams() {
		check(cfg.UpstreamPath(i), o.Upstream)
	}
	if cfg.Tier.Redis.URL != "" {
		if err := n.checkRedis(ctx, cfg.Tier.Redis); err != nil {
			errs = append(errs, fmt.Errorf("tier.redis: %w", err))
		} else {
			report("tier.redis", string(cfg.Tier.Redis.Mode)) // not the URL, which may hold a password
		}
	}
	return errors.Join(errs...)
}

// checkRedis tries all that a node needs of Redis.
func (n *Node) checkRedis(ctx context.Context, cfg config.Redis) error {
	s, err := n.openStore(cfg, noop.Meter{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // all is known by then
	return s.Try(ctx)
}
