package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestDemoTier: a tier of relays that are processes of their own, with a Redis and without,
// loses its owner and its control plane, and its clients notice nothing. No process is left
// over.
func TestDemoTier(t *testing.T) {
	for _, test := range []struct{ name, path, want string }{
		{"redis", "", `Redis +/.*redis-server, for discovery of the relays`},
		{"list", t.TempDir(), `no Redis +redis-server is not in PATH`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(asProgram, "1") // for the relays
			t.Setenv("TMPDIR", t.TempDir())
			if test.path != "" {
				t.Setenv("PATH", test.path)
			} else if _, err := exec.LookPath("redis-server"); err != nil {
				t.Fatalf("this test needs a real Redis: %v; .ci/redis installs it on Debian", err)
			}
			code, stdout, stderr := command(t, "demo", "--nodes", "3", "--clients", "30")
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
			}
			for _, want := range []string{
				test.want,
				`All 30 of them have their configuration after`,
				`The control plane sees 3 streams, one for each key \(api, edge, shop\), instead of 30`,
				`Relay [abc] owns the key api.* The demo kills it`,
				`Its 10 clients are connected to other relays`,
				`Relay [abc] owns the key now, and the control plane sees 3 streams again`,
				`The other 20 clients got nothing`,
				`The control plane becomes unreachable`,
				`A client that connects now has its configuration`,
				`the 30 clients got nothing`,
				`The control plane is reachable again. All clients have the change`,
				`All 31 clients have the last state, byte by byte, and none of them lost a resource`,
			} {
				if !regexp.MustCompile(want).MatchString(stdout) {
					t.Errorf("the output has nothing like %q:\n%s", want, stdout)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(t.TempDir(), "..", "*", "xdsrelay-demo-*")); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
	for _, args := range [][]string{
		{"--nodes", "1"}, {"--nodes", "10"}, {"--nodes", "3", "--for", "1s"}, {"--nodes", "3", "--dir", "."}, {"--nodes", "3", "--clients", "0"},
	} {
		if code, _, stderr := command(t, slices.Insert(args, 0, "demo")...); code != exitUsage || stderr == "" {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
	}
}
