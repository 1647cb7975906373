package config

import (
	"errors"
	"strconv"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// Authorization configures which clients may connect.
type Authorization struct {
	// Rules that authorize clients by what they claim, in order, before the relay
	// computes the client's key. Each has a name, match (a CEL expression over node, peer
	// and listener), and optionally deny: true. The first match allows the client, or
	// refuses it with deny. The relay refuses clients that match no rule or lack a field
	// that a rule reads. Empty allows all clients, which is valid only where no port
	// verifies client certificates.
	Rules []authorize.Rule `yaml:"rules" change:"live"`
	// Allows every client that the ports accept to claim any Node, where ports verify
	// client certificates. Excludes rules.
	AllowAny bool `yaml:"allow_any" change:"live"`
	// How often the relay rechecks each stream, plus or minus a quarter: whether the
	// rules still allow what the client claims, and whether its certificate is still
	// valid. Changes of the configuration, new trust bundles and the expiry of a
	// certificate take effect at once. At least 1s; 0s turns periodic rechecks off.
	RecheckInterval time.Duration `yaml:"recheck_interval" range:"0s|1s.."`
	// Keeps existing streams whose client certificate has expired or is no longer
	// trusted, for clients that renew certificates late and cannot be changed. New
	// streams are always refused.
	KeepUntrusted bool `yaml:"keep_untrusted"`
}

// Policy is the list of rules that [authorize.Compile] takes.
func (a *Authorization) Policy() []authorize.Rule {
	if a.AllowAny {
		return authorize.Any()
	}
	return a.Rules
}

// checkAuthorization compiles the rules and reports each mistake at its place in the file.
func (d *decoder) checkAuthorization(cfg *Config) {
	a := &cfg.Authorization
	_, err := authorize.Compile(a.Rules)
	for _, err := range flatten(err) {
		var mistake *aggregation.CompileError
		if !errors.As(err, &mistake) {
			d.wrong("authorization.rules", "%v", err)
			continue
		}
		d.misruled("authorization.rules["+strconv.Itoa(mistake.Index)+"]."+mistake.Field, mistake)
	}
	switch port := cfg.verifyingPort(); {
	case a.AllowAny && len(a.Rules) > 0:
		d.wrong("authorization.allow_any", "is true, but authorization.rules is also set (%s); use only one of the two", d.where("authorization.rules"))
	case port != "" && !a.AllowAny && len(a.Rules) == 0:
		d.wrong("authorization.rules", "is empty, but %s asks clients for certificates; without rules, each client could claim to be any other. "+
			`Expected rules such as [{name: own, match: 'peer.spiffe_id == "spiffe://corp/" + node.cluster'}], or authorization.allow_any: true if every client with a valid certificate may claim any Node`, port)
	}
}

// verifyingPort is the section of a port that asks clients for certificates; empty if
// none does.
func (c *Config) verifyingPort() string {
	for i, l := range c.AllListeners() {
		if l.TLS.AsksClients() {
			return c.ListenerPath(i) + ".tls"
		}
	}
	if c.REST.Address != "" && c.REST.TLS.AsksClients() {
		return "rest.tls"
	}
	return ""
}
