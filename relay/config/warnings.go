package config

import (
	"net"
	"net/url"
)

// Warnings returns what a valid configuration leaves open that a tier in production
// should not, each as a sentence with the field and what to do.
func (c *Config) Warnings() (all []string) {
	t := c.Tier
	if !t.On() {
		return nil
	}
	host, _, _ := net.SplitHostPort(t.Peer.Address) // it is valid
	secure := t.Peer.TLS.CertFile != "" || t.Peer.TLS.WorkloadAPI != ""
	switch {
	case !secure && !isLoopback(host):
		all = append(all, "tier.peer.tls: is not set, so the token and all configuration cross the network between nodes in the clear, and a machine that takes the address of a node is believed; set tier.peer.tls")
	case !secure && t.Peer.TokenFile == "" && t.Redis.URL != "":
		all = append(all, "tier.peer: has neither tls nor token_file, so anybody who can write to Redis can name a node that serves the clients; set one of them")
	}
	return append(all, t.Redis.warnings()...)
}

// warnings never quotes the URL, which may hold a password.
func (r Redis) warnings() (all []string) {
	at, err := url.Parse(r.URL)
	if r.URL == "" || err != nil || at.Scheme == "unix" || isLoopback(at.Hostname()) {
		return nil
	}
	if at.Scheme != "rediss" {
		all = append(all, "tier.redis.url: begins with redis://, so the password and who the nodes are cross the network in the clear; use rediss:// and tier.redis.tls")
	}
	if _, given := at.User.Password(); !given && r.PasswordFile == "" && r.TLS.CertFile == "" {
		all = append(all, "tier.redis: has no password and no certificate to show, so whoever reaches Redis can change who the nodes are; set tier.redis.password_file")
	}
	return all
}
