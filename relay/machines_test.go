package relay_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestMachinePort: what watches a node has a port of its own, until the node has
// drained, and which is off unless it is asked for.
func TestMachinePort(t *testing.T) {
	cfg := testConfig()
	cfg.Origin.Directory = t.TempDir()
	if off := start(t, cfg).MetricsAddr(); off != "" {
		t.Errorf("without an address it listens at %s", off)
	}
	cfg.Metrics.Address = "127.0.0.1:0"
	n := start(t, cfg)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n", "/metrics": "xdsrelay_build_info{"} {
		res, err := client.Get("http://" + n.MetricsAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %v %.200s", path, res.StatusCode, err, body)
		}
	}
	n.stop()
	n.ended(t)
	if conn, err := net.Dial("tcp", n.MetricsAddr()); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
}
