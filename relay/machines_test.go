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
	cfg.Upstream.Directory = t.TempDir()
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

// TestOperatorPortsAreBounded: whoever opens connections to the metrics or the admin port
// without end gets no more than one address may have, and others are served.
func TestOperatorPortsAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Metrics.Address = "127.0.0.1:0"
	n := start(t, cfg)
	for name, address := range map[string]string{"metrics": n.MetricsAddr(), "admin": n.AdminAddr()} {
		open := 0
		for range 200 {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				open++ // and it stays so, for the next request
			}
		}
		if open == 0 || open > 64 {
			t.Errorf("%s: %d connections of one address are open", name, open)
		}
		other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: other.DialContext}}
		res, err := client.Get("http://" + address + "/healthz")
		if err != nil {
			t.Fatalf("%s, from another address: %v", name, err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s, from another address: %d", name, res.StatusCode)
		}
	}
}
