package config

import "strings"

func (d *decoder) checkMetrics(cfg *Config) {
	a := cfg.Metrics.Address
	if a == "" {
		return
	}
	d.hostPort("metrics.address", a, 0)
	for _, other := range []struct{ field, address string }{
		{"listen.address", cfg.Listen.Address}, {"rest.address", cfg.REST.Address}, {"tier.peer.address", cfg.Tier.Peer.Address}, {"admin.address", cfg.Admin.Address},
	} {
		if a == other.address && !strings.HasSuffix(a, ":0") {
			d.wrong("metrics.address", "is the same as %s, expected another port", other.field)
		}
	}
}
