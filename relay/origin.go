package relay

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/secure"
	"xdsrelay/relay/telemetry"
	"xdsrelay/upstream"
)

// origin is where configuration comes from: an [upstream.ControlPlane] or an
// [upstream.Directory].
type origin interface {
	// Run keeps a key's feed in step until ctx ends.
	Run(ctx context.Context, f *cache.Feed)
	// Serves reports whether it can be asked for a name of a type at all.
	Serves(t *resource.Type, name string) bool
	// Close ends what all keys share. No Run goes on any more.
	Close()
}

// secureFor makes the credentials that an origin of a section is dialled with; nil for
// plaintext.
type secureFor func(section string, cfg config.Upstream) (credentials.TransportCredentials, error)

// originCredentials are a [secureFor].
func (n *Node) originCredentials(section string, cfg config.Upstream) (credentials.TransportCredentials, error) {
	if !cfg.TLS.On() {
		return nil, nil
	}
	c, err := n.secureClient(cfg.TLS.TLS)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	n.certs.watch(section, c.Validity)
	return c.Credentials(), nil
}

// newOrigin makes the origin that cfg names, without its legs. label tells it from
// others in metrics, and section is where it stands in the configuration.
func newOrigin(label, section string, cfg config.Upstream, secured secureFor, dial []grpc.DialOption, tel *telemetry.Telemetry, log *slog.Logger) (made namedOrigin, err error) {
	if cfg.Directory != "" {
		d, err := upstream.NewDirectory(upstream.DirectoryConfig{
			Path: cfg.Directory, Watched: cfg.WatchedDirectory, Name: label, Meter: tel.Meter(), Logger: log,
		})
		if err != nil {
			return made, err
		}
		return namedOrigin{origin: d, describe: func() ops.OriginInfo { return describeDirectory(cfg, d) }}, nil
	}
	to, err := controlPlaneConfig(section, cfg, secured, dial, log)
	if err != nil {
		return made, err
	}
	to.Name, to.Tracer, to.Meter = label, tel.Tracer(), tel.Meter()
	c, err := upstream.NewControlPlane(to)
	if err != nil {
		return made, err
	}
	return namedOrigin{origin: c, describe: func() ops.OriginInfo {
		return ops.OriginInfo{Kind: ops.ControlPlane, Where: cfg.Addresses, Variant: string(cfg.Variant), Problems: c.Problems(), SeparateTypes: c.Quarantined()}
	}}, nil
}

// controlPlaneConfig is how the control plane that cfg names is connected to.
func controlPlaneConfig(section string, cfg config.Upstream, secured secureFor, dial []grpc.DialOption, log *slog.Logger) (to upstream.ControlPlaneConfig, err error) {
	form := upstream.WildcardLegacy
	if cfg.WildcardForm == config.WildcardStar {
		form = upstream.WildcardStar
	}
	jitter := cfg.Backoff.Jitter
	if jitter == 0 {
		jitter = -1 // none; 0 would stand for the default
	}
	ping := cfg.KeepaliveInterval
	if ping == 0 {
		ping = -1 // none; 0 would stand for the default
	}
	creds, err := secured(section, cfg)
	if err != nil {
		return to, err
	}
	if cfg.TokenFile != "" {
		token, err := secure.NewToken(cfg.TokenFile, log)
		if err != nil {
			return to, err
		}
		dial = append(slices.Clone(dial), grpc.WithPerRPCCredentials(tokenCredentials{token}))
	}
	return upstream.ControlPlaneConfig{
		Addresses:        cfg.Addresses,
		Credentials:      creds,
		Delta:            cfg.Variant == config.Delta,
		V2:               cfg.XDSVersion == config.V2,
		Wildcard:         form,
		MaxReceiveBytes:  int(cfg.MaxResponseSize),
		MaxSendBytes:     int(cfg.MaxRequestSize),
		KeepaliveTime:    ping,
		KeepaliveTimeout: cfg.KeepaliveTimeout,
		ConnectTimeout:   cfg.ConnectTimeout,
		SendTimeout:      cfg.SendTimeout,
		AbsentAfter:      cfg.ResourceTimeout,
		Backoff: upstream.Backoff{
			Initial: cfg.Backoff.Initial, Multiplier: cfg.Backoff.Multiplier, Jitter: jitter, Max: cfg.Backoff.Max,
		},
		DialOptions: dial,
		Logger:      log,
	}, nil
}

func describeDirectory(cfg config.Upstream, d *upstream.Directory) ops.OriginInfo {
	info := ops.OriginInfo{Kind: ops.Directory, Where: []string{cfg.Directory}}
	errs := d.Errors()
	for _, path := range slices.Sorted(maps.Keys(errs)) {
		info.Problems = append(info.Problems, errs[path].Error())
	}
	return info
}
