package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSystemd: systemd knows each setting of the unit, which gives the program next to
// no rights, and enough time to drain; the program takes the configuration.
func TestSystemd(t *testing.T) {
	config, err := os.ReadFile("../systemd/relay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := check(t, string(config)); err != nil {
		t.Errorf("relay.yaml: %v\n%s", err, out)
	}
	text, err := os.ReadFile("../systemd/xdsrelay.service")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nTimeoutStopSec=45\n") || !strings.Contains(string(text), "\nDynamicUser=yes\n") {
		t.Error("the unit gives too little time, or too many rights")
	}
	if !strings.Contains(string(text), "\nType=notify\n") {
		t.Error("systemd does not wait until the node serves, although the node notifies it")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	here, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "xdsrelay.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/xdsrelay", here)), 0o600); err != nil {
		t.Fatal(err)
	}
	// verify only warns of what it does not know, so that what it says matters, too.
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "xdsrelay.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", unit).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
