package config

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
)

func (d *decoder) checkTier(cfg *Config) {
	t := cfg.Tier
	d.checkRedis(t.Redis)
	if b := t.Balance; b.RefusePercent <= b.HeadroomPercent || b.RefusePercent > 10_000 {
		d.wrong("tier.balance.refuse_percent", "is %d, expected %d to 10000", b.RefusePercent, b.HeadroomPercent+1)
	}
	d.checkPeer(t)
	d.checkMembers(cfg)
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (d *decoder) checkRedis(r Redis) {
	if !prefixForm.MatchString(r.Prefix) {
		d.wrong("tier.redis.prefix", "is %q, expected letters, digits, - and _", shorten(r.Prefix))
	}
	if r.URL == "" {
		return
	}
	if !slices.ContainsFunc([]string{"redis://", "rediss://", "unix://"}, func(scheme string) bool { return strings.HasPrefix(r.URL, scheme) }) {
		// Not the text itself, which may hold a password.
		d.wrong("tier.redis.url", "expected redis://host:port, rediss://host:port or unix://PATH")
	}
	switch {
	case r.Mode == Sentinel && r.Master == "":
		d.wrong("tier.redis.master", "is empty, expected the name of the master that the sentinels watch")
	case r.Mode != Sentinel && r.Master != "":
		d.wrong("tier.redis.master", "is %q, which only sentinels know: expected it empty, or tier.redis.mode: sentinel", shorten(r.Master))
	}
	d.readable("tier.redis.password_file", r.PasswordFile)
	d.readable("tier.redis.sentinel_password_file", r.SentinelPasswordFile)
	d.checkTLS("tier.redis.tls", r.TLS)
}

// readable holds that a file, where one is named, can be read.
func (d *decoder) readable(path, name string) {
	if name == "" {
		return
	}
	f, err := os.Open(name)
	if err != nil {
		d.wrong(path, "%v; expected a file that can be read", err)
		return
	}
	_ = f.Close()
}

func (d *decoder) checkPeer(t Tier) {
	p := t.Peer
	if p.Address == "" {
		if t.On() {
			d.wrong("tier.peer.address", "is empty, expected host:port where the other nodes of the tier connect, like 127.0.0.1:18001 (or --peer)")
		}
		return
	}
	host, ok := d.hostPort("tier.peer.address", p.Address, 0)
	loopback := isLoopback(host)
	secure, trusts := p.TLS.CertFile != "" || p.TLS.WorkloadAPI != "", p.TLS.trusts()
	if ok && !loopback && !secure && !p.Plaintext {
		d.wrong("tier.peer.address", "%s is not a loopback address, and tier.peer.tls has no certificate: whoever sees the traffic can read all configuration. "+
			"Set tier.peer.tls, or tier.peer.plaintext: true if the network may see it", quoteHost(host))
	}
	if ok && !loopback && p.TokenFile == "" && (!secure || !trusts) {
		d.wrong("tier.peer.token_file", "is empty, and there is no tls.ca_file for the certificates of peers: expected one of them, since %s is not a loopback address", quoteHost(host))
	}
	if secure && !trusts && p.TokenFile == "" {
		d.wrong("tier.peer.tls.ca_file", "is empty: expected the authority whose certificates peers show, or a token_file")
	}
	if p.Advertise != "" {
		d.hostPort("tier.peer.advertise", p.Advertise, 1)
	} else if ok && t.On() && isUnspecified(host) {
		d.wrong("tier.peer.advertise", "is empty, and other nodes cannot dial %s: expected host:port where they reach this node", quoteHost(host))
	}
	d.checkTLS("tier.peer.tls", p.TLS)
	d.readable("tier.peer.token_file", p.TokenFile)
}

// isUnspecified tells whether a host stands for all interfaces.
func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func (d *decoder) checkMembers(cfg *Config) {
	t := cfg.Tier
	if len(t.Members) == 0 {
		return
	}
	if t.Redis.URL != "" {
		d.wrong("tier.members", "there is a tier.redis.url too: expected the nodes to find one another through either")
	}
	names := make(map[string]bool)
	for _, m := range t.Members {
		name, address, ok := strings.Cut(m, "=")
		if !ok || name == "" {
			d.wrong("tier.members", "got %q, expected name=host:port", shorten(m))
			continue
		}
		d.hostPort("tier.members", address, 1)
		if names[name] {
			d.wrong("tier.members", "%q is there twice", name)
		}
		names[name] = true
	}
	if cfg.Node.Name != "" && !names[cfg.Node.Name] {
		d.wrong("tier.members", "this node, %q, is not among them", cfg.Node.Name)
	}
}

func (d *decoder) checkLastGood(cfg *Config) {
	l := cfg.LastGood
	switch {
	case l.Store == StoreRedis && cfg.Tier.Redis.URL == "":
		d.wrong("last_good.store", "is redis, but tier.redis.url is empty")
	case l.Store == StoreDirectory && l.Directory == "":
		d.wrong("last_good.directory", "is empty, expected where the state is kept")
	}
	d.readable("last_good.keys_file", l.KeysFile)
}
