package main

import (
	"encoding"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"xdsrelay/relay/config"
)

// setting is a flag that sets a field of the configuration.
type setting struct{ name, field, value, help string }

// settings are the flags of run and config validate for a quick start without a file. Their values
// are texts, so that errors use the words of the configuration.
var settings = []setting{
	{"listen", "listener.address", "ADDR", "address for xDS clients, as host:port or unix:PATH"},
	{"tls-cert", "listener.tls.cert_file", "FILE", "certificate of the port for clients, which enables TLS; requires --tls-key"},
	{"tls-key", "listener.tls.key_file", "FILE", "private key of the certificate in --tls-cert"},
	{"authorize", "authorization.allow_any", "any", "accept every client whose certificate is valid; rules need a file"},
	{"tls-ca", "listener.tls.ca_file", "FILE", "CA certificates for client certificates, which clients must then present"},
	{"upstream", "upstream", "ADDR|DIR", "control plane as host:port (several separated by commas), or a directory of resources"},
	{"upstream-tls-ca", "upstream.tls.ca_file", "FILE", "CA certificates that verify the control plane; enables TLS to it"},
	{"upstream-tls-cert", "upstream.tls.cert_file", "FILE", "client certificate for the control plane; requires --upstream-tls-key"},
	{"upstream-tls-key", "upstream.tls.key_file", "FILE", "private key of the certificate in --upstream-tls-cert"},
	{"upstream-variant", "upstream.variant", "sotw|delta", "xDS variant of the streams to the control plane"},
	{keyFlag, "aggregation.rules", "CEL", "expression over node and peer that computes the aggregation key; replaces all rules"},
	{"admin", "admin.address", "ADDR", "address of the admin port, as host:port; empty disables the port"},
	{"name", "node.name", "NAME", "name of the node, unique in its tier (default: the host name)"},
	{"redis", "tier.redis.url", "URL", "Redis of the tier, as redis://host:port"},
	{"peer", "tier.peer.address", "ADDR", "address for the other nodes of the tier, as host:port"},
	{"linger", "cache.linger", "DURATION", "time that unused resources stay subscribed"},
	{"log-level", "log.level", "LEVEL", "log level: debug, info, warn or error"},
}

// addSettings adds the flags for the configuration to a command.
func addSettings(flags *pflag.FlagSet) {
	for _, s := range settings {
		addSetting(flags, s.name)
	}
	flags.Bool("upstream-tls", false, "use TLS to the control plane; verify it with the CA certificates of the system or of --upstream-tls-ca")
	flags.Bool("plaintext", false, "allow --listen on an address other than loopback without TLS")
}

// addSetting adds one of these flags. Its help shows the default of the field.
func addSetting(flags *pflag.FlagSet, name string) {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
	s := settings[i]
	flags.Var(&settingValue{kind: s.value}, s.name, s.help)
	flags.Lookup(s.name).DefValue = defaultOf(s.field)
}

// settingValue is the value of such a flag; help shows its kind.
type settingValue struct{ text, kind string }

func (v *settingValue) String() string { return v.text }
func (v *settingValue) Type() string   { return v.kind }

func (v *settingValue) Set(text string) error {
	v.text = text
	return nil
}

// defaultOf returns the default of a field for --help; empty if it is not a single value.
func defaultOf(field string) string {
	at := reflect.ValueOf(config.Default()).Elem()
	for name := range strings.SplitSeq(field, ".") {
		if at = fieldOf(at, name); !at.IsValid() {
			return ""
		}
	}
	if text, ok := reflect.TypeAssert[encoding.TextMarshaler](at); ok {
		value, _ := text.MarshalText()
		return string(value)
	}
	switch at.Kind() {
	case reflect.String, reflect.Int64: // names and durations
		return fmt.Sprint(at.Interface())
	}
	return ""
}

// fieldOf returns the field of a struct that has a name in YAML.
func fieldOf(in reflect.Value, name string) reflect.Value {
	if in.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for i := range in.NumField() {
		tag, _, _ := strings.Cut(in.Type().Field(i).Tag.Get("yaml"), ",")
		if tag == name {
			return in.Field(i)
		}
		if in.Type().Field(i).Anonymous {
			if found := fieldOf(in.Field(i), name); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}

// readSettings returns the flags that were used: of all, or of those that only names if a command has
// a flag of the same name with another meaning.
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

// readUpstream distinguishes a directory from addresses, and clears the field of the other in the file.
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

// isDirectory reports whether a text is the path of a directory, which may not exist.
func isDirectory(value string) bool {
	if info, err := os.Stat(value); err == nil {
		return info.IsDir()
	}
	isTarget := strings.HasPrefix(value, "unix:") || strings.HasPrefix(value, "dns:")
	return strings.ContainsRune(value, '/') && !isTarget && !strings.Contains(value, "://")
}
