package admin

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestScrapesOfSlowReaders: clients that ask for metrics and do not read them keep nobody
// else from being served, on either port.
func TestScrapesOfSlowReaders(t *testing.T) {
	registry := prometheus.NewRegistry()
	large := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "large", Help: "."}, []string{"label"})
	registry.MustRegister(large)
	for i := range 24 { // more than sockets take
		large.WithLabelValues(fmt.Sprintf("%d-%s", i, strings.Repeat("x", 512<<10)))
	}
	cfg := testConfig()
	cfg.Metrics = registry
	for name, handler := range map[string]http.Handler{"metrics": Machines(func() error { return nil }, registry), "admin": Handler(cfg)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits until who does not read is given up
			server := httptest.NewServer(handler)
			defer server.Close()
			address := server.Listener.Addr().String()
			for range 3 * maxScrapes {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				fmt.Fprintf(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if _, err := io.ReadFull(conn, make([]byte, 10)); err != nil { // it is being written, or was refused
					t.Fatal(err)
				}
			}
			res, err := http.Get(server.URL + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if n, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK || n < 10<<20 {
				t.Errorf("got %d with %d bytes, %v, while others do not read", res.StatusCode, n, err)
			}
		})
	}
}
