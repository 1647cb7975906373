package main

import (
	"strings"
	"testing"

	"xdsrelay/relay/xdstest"
)

// TestCheckConnect: check contacts the control plane only with --connect, and then says
// what works and what does not.
func TestCheckConnect(t *testing.T) {
	origin := xdstest.NewOrigin(t)
	network := xdstest.NewNetwork(t, origin.Addr())
	network.Refuse()
	closed := network.Addr()
	file := writeFile(t, "relay.yaml", "origin: {connect_timeout: 60s}\n")
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"--connect --upstream " + origin.Addr(), exitOK, "connected: origin: " + origin.Addr() + "\n", ""},
		{"--upstream " + closed, exitOK, "ok: ", ""},
		{"--connect --upstream " + closed, 1, "ok: ", "origin: " + closed + ": cannot connect: "},
		{"--upstream " + closed + " --peer 127.0.0.1:18001", exitUsage, "", "--peer: tier.peer.address: is set, but without tier.redis.url"},
	} {
		code, stdout, stderr := command(t, append([]string{"check", "-c", file}, strings.Fields(test.args)...)...)
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("check %s: exit code %d, want %d; got\n%s%s", test.args, code, test.code, stdout, stderr)
		}
	}
}
