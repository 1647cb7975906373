package config

import "time"

// leastLinger is how long demand has to last where clients poll: they hold
// nothing between two polls, and those of Envoy are a second apart or more.
const leastLinger = time.Second

func (d *decoder) checkREST(cfg *Config) {
	r := cfg.REST
	if r.Address == "" {
		return
	}
	d.checkServerTLS("rest.tls", r.TLS)
	if host, ok := d.hostPort("rest.address", r.Address, 0); ok {
		d.checkPlaintext("rest", "REST", "rest.plaintext: true (or XDSRELAY_REST_PLAINTEXT=true)", host, r.Plaintext, r.TLS)
	}
	if cfg.Cache.Linger < leastLinger {
		d.wrong("cache.linger", "is %s, expected at least %s where clients poll (rest.address): what a poll asked for has to stay subscribed until the next one",
			cfg.Cache.Linger, leastLinger)
	}
}
