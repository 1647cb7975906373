package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

const envPrefix = "XDSRELAY_"

// Variables of commands that ask a running node. They set no field: where a node listens
// is not always an address to connect to, and its token file may hold several tokens.
const (
	CLIAdmin     = envPrefix + "CLI_ADMIN"            // the flag --admin
	CLITokenFile = envPrefix + "CLI_ADMIN_TOKEN_FILE" // the flag --admin-token-file
)

// EnvNames maps the environment variables that are understood to the paths of
// the fields they set.
func EnvNames() map[string]string {
	names := make(map[string]string)
	for _, l := range leaves(Default()) {
		names[l.env()] = l.path
	}
	return names
}

// kubernetesLink matches the settings that Kubernetes adds to every pod for a
// Service whose name begins with xdsrelay. They are not meant for the relay, and
// their values tell them from a mistaken XDSRELAY_LISTEN_PORT=18000.
var kubernetesLink = regexp.MustCompile(`^XDSRELAY_(\w+_)?(` +
	`SERVICE_HOST=|SERVICE_PORT(_\w+)?=|` +
	`PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://|` +
	`PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)`)

// decodeEnv sets in cfg what the environment says. A variable that no field has
// is a mistake: it would be one that silently does nothing.
func (d *decoder) decodeEnv(env []string, cfg *Config) {
	names := EnvNames()
	env = slices.Clone(env)
	slices.Sort(env)
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		at := place{source: name}
		path, ok := names[name]
		switch {
		case ok:
			d.override(path, at)
			if err := setField(cfg, path, value); err != nil {
				d.fail(at, path, "got %q, %s", shorten(value), err)
			}
		case name == CLIAdmin, name == CLITokenFile:
		case !kubernetesLink.MatchString(setting):
			hint, _ := nearest(name, append(slices.Sorted(maps.Keys(names)), CLIAdmin, CLITokenFile))
			d.fail(at, "", "unknown environment variable; the nearest known one is %s", hint)
		}
	}
}
