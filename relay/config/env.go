package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const envPrefix = "XDSRELAY_"

// Variables of commands that connect to a running node. They set no field: the address of
// a port is not always one to connect to, and its token file may have several tokens.
const (
	CLIAdmin     = envPrefix + "CLI_ADMIN"            // the flag --admin
	CLITokenFile = envPrefix + "CLI_ADMIN_TOKEN_FILE" // the flag --admin-token-file
)

// EnvNames maps the names of environment variables to the paths of the fields they set.
func EnvNames() map[string]string {
	names := make(map[string]string)
	for _, l := range leaves(Default()) {
		names[l.env()] = l.path
	}
	return names
}

// kubernetesLink matches the settings that Kubernetes adds to every pod for a
// Service whose name begins with xdsrelay. They are not meant for the relay, and
// their values distinguish them from a mistaken XDSRELAY_LISTENER_PORT=18000.
var kubernetesLink = regexp.MustCompile(`^XDSRELAY_(\w+_)?(` +
	`SERVICE_HOST=|SERVICE_PORT(_\w+)?=|` +
	`PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://|` +
	`PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)`)

// decodeEnv sets the fields of cfg that environment variables name.
func (d *decoder) decodeEnv(env []string, cfg *Config) {
	names := EnvNames()
	env = slices.Clone(env)
	slices.Sort(env)
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		path, ok := names[name]
		if !ok {
			continue // see UnknownVariables
		}
		at := place{source: name}
		d.override(path, at, value)
		if err := setField(cfg, path, value); err != nil {
			d.fail(at, path, "got %q, %s", shorten(value), err)
		}
	}
}

// UnknownVariables returns a warning for each environment variable that begins with
// XDSRELAY_ and sets no field, with the nearest name that does. It is no mistake: a
// variable for a newer or older version must not keep a node from starting.
func UnknownVariables(env []string) (all []string) {
	known := append(slices.Sorted(maps.Keys(EnvNames())), CLIAdmin, CLITokenFile)
	env = slices.Clone(env)
	slices.Sort(env)
	for _, setting := range env {
		name, _, _ := strings.Cut(setting, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(known, name) || kubernetesLink.MatchString(setting) {
			continue
		}
		hint, _ := nearest(name, known)
		all = append(all, fmt.Sprintf("%s: unknown environment variable, which has no effect; the nearest known name is %s", name, hint))
	}
	return all
}
