package config

import "time"

// leastLinger is how long demand has to last where clients poll: they hold
// nothing between two polls, and those of Envoy are a second apart or more.
const leastLinger = time.Second

func (d *decoder) checkREST(cfg *Config) {
	r := cfg.REST
	if r.Hold < 0 || r.Hold > 5*time.Minute {
		d.wrong("rest.hold", "is %s, expected 0s to 5m", r.Hold)
	}
	if r.Remember < time.Second || r.Remember > time.Hour {
		d.wrong("rest.remember", "is %s, expected 1s to 1h", r.Remember)
	}
	d.sizeWithin("rest.max_receive_size", r.MaxReceiveSize, 4<<10, 1<<30)
	d.sizeWithin("rest.bodies_size", r.BodiesSize, 1<<20, 1<<50)
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
