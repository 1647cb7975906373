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
	d.checkNodes(cfg)
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
		// Not the text itself, which may contain a password.
		d.wrong("tier.redis.url", "expected redis://host:port, rediss://host:port or unix://PATH")
	}
	switch {
	case r.Mode == Sentinel && r.MasterName == "":
		d.wrong("tier.redis.master_name", "is empty, expected the name of the master that the sentinels watch")
	case r.Mode != Sentinel && r.MasterName != "":
		d.wrong("tier.redis.master_name", "is %q, but only sentinels use it; remove it, or set tier.redis.mode: sentinel", shorten(r.MasterName))
	}
	d.readable("tier.redis.password_file", r.PasswordFile)
	d.readable("tier.redis.sentinel_password_file", r.SentinelPasswordFile)
	d.checkTLS("tier.redis.tls", r.TLS)
}

// readable requires that a file, where one is named, can be read.
func (d *decoder) readable(path, name string) {
	if name == "" || d.withoutFiles {
		return
	}
	f, err := os.Open(name)
	if err != nil {
		d.wrong(path, "%v; expected a file that this process can read", err)
		return
	}
	_ = f.Close()
}

func (d *decoder) checkPeer(t Tier) {
	p := t.Peer
	if p.Address == "" {
		if t.On() {
			d.wrong("tier.peer.address", "is empty, expected the host:port at which the other nodes of the tier connect, like 127.0.0.1:18001 (or --peer)")
		}
		return
	}
	host, ok := d.hostPort("tier.peer.address", p.Address, 0)
	loopback := isLoopback(host)
	secure, trusts := p.TLS.CertFile != "" || p.TLS.WorkloadAPI != "", p.TLS.trusts()
	if ok && !loopback && !secure && !p.AllowPlaintext {
		d.wrong("tier.peer.address", "%s is not a loopback address, and tier.peer.tls has no certificate; everyone who sees the traffic can read all configuration. "+
			"Set tier.peer.tls, or tier.peer.allow_plaintext: true if the network is trusted", quoteHost(host))
	}
	if ok && !loopback && p.TokenFile == "" && (!secure || !trusts) {
		d.wrong("tier.peer.token_file", "is empty, and tier.peer.tls has no authority for the certificates of peers; set one of them, since %s is not a loopback address", quoteHost(host))
	}
	if secure && !trusts && p.TokenFile == "" {
		d.wrong("tier.peer.tls.ca_file", "is empty, expected the authority of the certificates of peers, or tier.peer.token_file")
	}
	if p.AdvertiseAddress != "" {
		d.hostPort("tier.peer.advertise_address", p.AdvertiseAddress, 1)
	} else if ok && t.On() && isUnspecified(host) {
		d.wrong("tier.peer.advertise_address", "is empty, but other nodes cannot connect to %s; expected the host:port at which they reach this node", quoteHost(host))
	}
	d.checkTLS("tier.peer.tls", p.TLS)
	d.readable("tier.peer.token_file", p.TokenFile)
}

// isUnspecified reports whether a host means all interfaces.
func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func (d *decoder) checkNodes(cfg *Config) {
	t := cfg.Tier
	if len(t.Nodes) == 0 {
		return
	}
	if t.Redis.URL != "" {
		d.wrong("tier.nodes", "is set, and tier.redis.url is set as well; use only one of the two")
	}
	names := make(map[string]bool)
	for _, m := range t.Nodes {
		name, address, ok := strings.Cut(m, "=")
		if !ok || name == "" {
			d.wrong("tier.nodes", "got %q, expected name=host:port", shorten(m))
			continue
		}
		d.hostPort("tier.nodes", address, 1)
		if names[name] {
			d.wrong("tier.nodes", "%q is listed twice", name)
		}
		names[name] = true
	}
	if cfg.Node.Name != "" && !names[cfg.Node.Name] {
		d.wrong("tier.nodes", "does not list this node, %q", cfg.Node.Name)
	}
}

func (d *decoder) checkLastKnownGood(cfg *Config) {
	l := cfg.LastKnownGood
	switch {
	case l.Store == StoreRedis && cfg.Tier.Redis.URL == "":
		d.wrong("last_known_good.store", "is redis, but tier.redis.url is empty; set it, or use store: directory")
	case l.Store == StoreDirectory && l.Directory == "":
		d.wrong("last_known_good.directory", "is empty, expected the directory of the store")
	}
	d.readable("last_known_good.encryption_keys_file", l.EncryptionKeysFile)
}
