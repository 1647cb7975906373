package upstream

import (
	"context"
	"errors"
	"sync/atomic"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// ControlPlane is an origin that speaks ADS. One value serves all keys: they
// share its connections, and each key has one stream (K4). Its methods are safe
// for concurrent use.
type ControlPlane struct {
	// Fixed after construction.
	cfg     ControlPlaneConfig
	servers []*server // best first
	metrics *metrics

	// Atomic.
	keys atomic.Int64 // that Run serves now
}

var errClosed = errors.New("the control plane client is closed")

// NewControlPlane prepares the connections; they are opened by [ControlPlane.Watch], or
// when a key first wants something. It fails where cfg makes no sense.
func NewControlPlane(cfg ControlPlaneConfig) (*ControlPlane, error) {
	return newControlPlane(cfg, func(address string, cfg *ControlPlaneConfig) (channel, error) { return newPinged(address, cfg) })
}

func newControlPlane(cfg ControlPlaneConfig, dial func(string, *ControlPlaneConfig) (channel, error)) (*ControlPlane, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	c := &ControlPlane{cfg: cfg}
	var err error
	if c.metrics, err = newMetrics(&c.cfg); err != nil {
		return nil, err
	}
	for i, address := range cfg.Addresses {
		conn, err := dial(address, &c.cfg)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.servers = append(c.servers, newServer(i, address, conn, c))
	}
	return c, nil
}

// Run keeps f in step with the control plane until ctx ends. It is what
// [cache.Config.Run] wants.
func (c *ControlPlane) Run(ctx context.Context, f *cache.Feed) {
	c.keys.Add(1)
	defer c.keys.Add(-1)
	newRunner(c, f).run(ctx)
}

// Serves reports whether the control plane can be asked for a name of a type, "*"
// for the wildcard. Over SotW there are neither types without a SotW form nor
// globs (D8); who is routed there is told so without asking.
func (c *ControlPlane) Serves(t *resource.Type, name string) bool {
	return c.cfg.Delta || !t.DeltaOnly() && !resource.IsGlob(name)
}

// Close ends the connections. A Run that is still going on ends with its
// context, and does nothing until then.
func (c *ControlPlane) Close() {
	c.metrics.close()
	for _, s := range c.servers {
		_ = s.channel.Close() // says only that it was closed before
	}
}
