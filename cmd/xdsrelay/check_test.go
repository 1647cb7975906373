package main

import (
	"strings"
	"testing"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// TestValidateConnect: config validate contacts the control plane and Redis only with --connect, and
// then reports errors.
func TestValidateConnect(t *testing.T) {
	origin := xdstest.NewOrigin(t)
	network := xdstest.NewNetwork(t, origin.Addr())
	network.Refuse()
	closed := network.Addr()
	redis := redistest.Start(t, redistest.Config{Password: "right-word"})
	tier := " --peer 127.0.0.1:1 --redis "
	file := writeFile(t, "relay.yaml", "upstream: {connect_timeout: 60s}\n")
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"--connect --upstream " + origin.Addr(), exitOK, "connected: upstream: " + origin.Addr() + "\n", ""},
		{"--upstream " + closed, exitOK, "ok: ", ""},
		{"--connect --upstream " + closed, 1, "ok: ", "upstream: " + closed + ": cannot connect: "},
		{"--upstream " + closed + tier + "redis://" + redis.Addr(), exitOK, "ok: ", ""},
		{"--connect --upstream " + origin.Addr() + tier + redis.URL(), exitOK, "connected: tier.redis: standalone\n", ""},
		{
			"--connect --upstream " + origin.Addr() + tier + "redis://" + redis.Addr(), 1, "connected: upstream",
			"tier.redis: Redis requires a password, and this node sends none: NOAUTH",
		},
		{"--connect --upstream " + origin.Addr() + tier + "redis://:wrong-word@" + redis.Addr(), 1, "ok: ", "tier.redis: Redis rejects the user or the password: WRONGPASS"},
		{"--connect --upstream " + origin.Addr() + tier + "redis://" + closed, 1, "ok: ", "tier.redis: "},
		{"--upstream " + closed + " --peer 127.0.0.1:18001", exitUsage, "", "--peer: tier.peer.address: is set, but without tier.redis.url"},
	} {
		code, stdout, stderr := command(t, append([]string{"config", "validate", "-c", file}, strings.Fields(test.args)...)...)
		if strings.Contains(stdout+stderr, "-word") {
			t.Errorf("a password was shown:\n%s%s", stdout, stderr)
		}
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("config validate %s: exit code %d, want %d; got\n%s%s", test.args, code, test.code, stdout, stderr)
		}
	}
}
