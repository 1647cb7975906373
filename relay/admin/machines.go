package admin

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Machines serves what programs around a node ask it for, kubelets and Prometheus:
// /healthz, /readyz and /metrics. Unlike [Handler] it may be reached by anybody.
// It says nothing of keys, clients, resources or addresses, so it does not say why
// a node is not ready, and it takes no orders. ready returns nil while the node
// should get clients; it and metrics are called concurrently.
func Machines(ready func() error, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	for _, e := range machineEndpoints(ready, metrics) {
		mux.HandleFunc(e.Method+" "+e.Path, e.handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

// MachineEndpoints are all that [Machines] serves.
func MachineEndpoints() []Endpoint { return machineEndpoints(nil, nil) }

func machineEndpoints(ready func() error, metrics prometheus.Gatherer) []Endpoint {
	return []Endpoint{
		{http.MethodGet, "/healthz", nil, reading(nil, Config{}.healthz)},
		{http.MethodGet, "/readyz", nil, reading(nil, func(w http.ResponseWriter, _ *http.Request) {
			if ready() != nil {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				w.WriteHeader(http.StatusServiceUnavailable)
				writeText(w, "not ready; the admin port and the log have the reason\n")
				return
			}
			writeText(w, "ok\n")
		})},
		{http.MethodGet, "/metrics", []string{paramMetric}, reading([]string{paramMetric}, scrapes(metrics, promhttp.HandlerOpts{}))},
	}
}
