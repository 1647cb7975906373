package upstream

import (
	"context"
	"errors"
	"sync/atomic"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// ControlPlane is a control plane that supports ADS. One value serves all keys: they share its
// connections, and each key has one stream (K4). Its methods are safe for concurrent use.
type ControlPlane struct {
	// Fixed after construction.
	cfg     ControlPlaneConfig
	servers []*server // best first
	metrics *metrics

	// Atomic.
	keys atomic.Int64 // that Run serves now
}

var errClosed = errors.New("the control plane client is closed")

// NewControlPlane prepares the connections. [ControlPlane.Watch] opens them, or the first key that
// wants something. It returns an error if cfg is invalid.
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

// Run keeps f synchronized with the control plane until ctx ends. It implements [cache.Config.Run].
func (c *ControlPlane) Run(ctx context.Context, f *cache.Feed) {
	c.keys.Add(1)
	defer c.keys.Add(-1)
	newRunner(c, f).run(ctx)
}

// Serves reports whether the control plane can be asked for a name of a type; the name is "*" for
// the wildcard. SotW has neither types without a SotW form nor globs (D8); clients that ask for
// these are answered without a request.
func (c *ControlPlane) Serves(t *resource.Type, name string) bool {
	return c.cfg.Delta || !t.DeltaOnly() && !resource.IsGlob(name)
}

// Close closes the connections. A Run that is still active ends with its context and does nothing
// until then.
func (c *ControlPlane) Close() {
	c.metrics.close()
	for _, s := range c.servers {
		_ = s.channel.Close() // fails only if it was closed before
	}
}
