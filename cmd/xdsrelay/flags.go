package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"xdsrelay/relay/config"
)

// setting is a flag that sets a field of the configuration.
type setting struct{ name, field, value, help string }

// settings are the flags of run and check for a quick start without a file. The
// values are texts, so that a mistake is told in the words of the configuration.
var settings = []setting{
	{"listen", "listener.address", "ADDR", "where xDS clients connect, as host:port or unix:PATH"},
	{"tls-cert", "listener.tls.cert_file", "FILE", "the certificate of the port for clients, which then has TLS; with --tls-key"},
	{"tls-key", "listener.tls.key_file", "FILE", "its private key"},
	{"authorize", "authorization.allow_any", "any", "let in every client whose certificate is good; rules need a file"},
	{"tls-ca", "listener.tls.ca_file", "FILE", "the authorities of clients, who then have to show a certificate"},
	{"upstream", "upstream", "ADDR|DIR", "the control plane, as host:port (several with commas), or a directory of resources"},
	{"upstream-tls-ca", "upstream.tls.ca_file", "FILE", "the authorities of the control plane, which is then dialled over TLS"},
	{"upstream-tls-cert", "upstream.tls.cert_file", "FILE", "the certificate that is shown to the control plane; with --upstream-tls-key"},
	{"upstream-tls-key", "upstream.tls.key_file", "FILE", "its private key"},
	{"upstream-variant", "upstream.variant", "sotw|delta", "the variant of xDS spoken with the control plane"},
	{"key", "aggregation.rules", "CEL", "the expression over node and peer that groups clients, in place of all rules"},
	{"admin", "admin.address", "ADDR", "where the admin HTTP port listens; empty turns it off"},
	{"name", "node.name", "NAME", "what the node calls itself; in a tier each needs another"},
	{"redis", "tier.redis.url", "URL", "the Redis by which several nodes are one tier, as redis://host:port"},
	{"peer", "tier.peer.address", "ADDR", "where the other nodes of a tier connect, as host:port"},
	{"linger", "cache.linger", "DURATION", "how long what no client wants any more stays subscribed"},
	{"log-level", "log.level", "LEVEL", "debug, info, warn or error"},
}

// addSettings adds the flags for the configuration to a command.
func addSettings(flags *pflag.FlagSet) {
	for _, s := range settings {
		flags.String(s.name, "", "`"+s.value+"`: "+s.help)
	}
	flags.Bool("upstream-tls", false, "dial the control plane over TLS, with the authorities of the system unless --upstream-tls-ca names others")
	flags.Bool("plaintext", false, "allow --listen on more than loopback without TLS")
}

// readSettings gives those flags that were used: of all, or of those named in only,
// where others mean something else.
func readSettings(flags *pflag.FlagSet, only ...string) []config.Flag {
	var out []config.Flag
	for _, s := range settings {
		f := flags.Lookup(s.name)
		switch {
		case f == nil || !f.Changed, len(only) > 0 && !slices.Contains(only, s.name):
		case s.name == "upstream":
			out = append(out, readUpstream(f.Value.String())...)
		case s.name == "authorize":
			out = append(out, readAuthorize(f.Value.String()))
		default:
			out = append(out, config.Flag{Name: "--" + s.name, Field: s.field, Value: f.Value.String()})
		}
	}
	if f := flags.Lookup("upstream-tls"); f != nil && f.Changed {
		out = append(out, config.Flag{Name: "--upstream-tls", Field: "upstream.tls.enabled", Value: f.Value.String()})
	}
	if f := flags.Lookup("plaintext"); f != nil && f.Changed {
		out = append(out, config.Flag{Name: "--plaintext", Field: "listener.allow_plaintext", Value: f.Value.String()})
	}
	return out
}

// readAuthorize takes the word any, which replaces all rules.
func readAuthorize(value string) config.Flag {
	if value == "any" {
		value = "true"
	}
	return config.Flag{Name: "--authorize", Field: "authorization.allow_any", Value: value}
}

// readUpstream tells a directory from addresses, and takes back what a file says
// of the other.
func readUpstream(value string) []config.Flag {
	addresses, directory := value, ""
	if isDirectory(value) {
		addresses, directory = "", value
	}
	const name = "--upstream"
	return []config.Flag{
		{Name: name, Field: "upstream.addresses", Value: addresses},
		{Name: name, Field: "upstream.directory", Value: directory},
		{Name: name, Field: "upstream.watched_directory", Value: ""},
	}
}

// isDirectory tells whether a text names a directory, or a place where one would
// have to be.
func isDirectory(value string) bool {
	if info, err := os.Stat(value); err == nil {
		return info.IsDir()
	}
	isTarget := strings.HasPrefix(value, "unix:") || strings.HasPrefix(value, "dns:")
	return strings.ContainsRune(value, '/') && !isTarget && !strings.Contains(value, "://")
}
