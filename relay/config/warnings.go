package config

import (
	"net"
	"net/url"
)

// Warnings returns the risks of a valid configuration for a tier in production, and of its
// rollouts, each as a sentence with the field and what to do.
func (c *Config) Warnings() (all []string) {
	all = c.rolloutWarnings()
	t := c.Tier
	if !t.On() {
		return all
	}
	host, _, _ := net.SplitHostPort(t.Peer.Address) // it is valid
	secure := t.Peer.TLS.CertFile != "" || t.Peer.TLS.WorkloadAPI != ""
	switch {
	case !secure && !isLoopback(host):
		all = append(all, "tier.peer.tls: is not set, so the token and all configuration cross the network between nodes in plaintext, and a machine can take over the address of a node; set tier.peer.tls")
	case !secure && t.Peer.TokenFile == "" && t.Redis.URL != "":
		all = append(all, "tier.peer: has neither tls nor token_file, so everyone who can write to Redis can add a node that serves clients; set one of them")
	}
	return append(all, t.Redis.warnings()...)
}

// warnings never quotes the URL, which may contain a password.
func (r Redis) warnings() (all []string) {
	at, err := url.Parse(r.URL)
	if r.URL == "" || err != nil || at.Scheme == "unix" || isLoopback(at.Hostname()) {
		return nil
	}
	if at.Scheme != "rediss" {
		all = append(all, "tier.redis.url: begins with redis://, so the password and the list of nodes cross the network in plaintext; use rediss:// and tier.redis.tls")
	}
	if _, given := at.User.Password(); !given && r.PasswordFile == "" && r.TLS.CertFile == "" {
		all = append(all, "tier.redis: has no password and no client certificate, so everyone who reaches Redis can change the list of nodes; set tier.redis.password_file")
	}
	return all
}
