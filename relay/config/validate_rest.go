package config

import "time"

// leastLinger is how long subscriptions must last for polling clients: they keep none
// between two polls, and those of Envoy are at least a second apart.
const leastLinger = time.Second

func (d *decoder) checkREST(cfg *Config) {
	r := cfg.REST
	if r.Address == "" {
		return
	}
	d.checkServerTLS("rest.tls", r.TLS)
	if host, ok := d.hostPort("rest.address", r.Address, 0); ok {
		d.checkPlaintext("rest", "REST", "rest.allow_plaintext: true (or XDSRELAY_REST_ALLOW_PLAINTEXT=true)", host, r.AllowPlaintext, r.TLS)
	}
	if cfg.Cache.Linger < leastLinger {
		d.wrong("cache.linger", "is %s, expected at least %s with rest.address, since the names of a poll must stay subscribed until the next poll",
			cfg.Cache.Linger, leastLinger)
	}
}
