package admin

import (
	"bytes"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxScrapes is how many responses with metrics are built at a time, on each port.
	maxScrapes = 4
	// scrapeWrite is what a client has to read such a response.
	scrapeWrite = 15 * time.Second
)

// scrapes serves metrics. A response is built before any of it is written, so that
// clients that read slowly keep nobody else from being served.
func scrapes(metrics prometheus.Gatherer, opts promhttp.HandlerOpts) http.HandlerFunc {
	opts.MaxRequestsInFlight = maxScrapes
	build := promhttp.HandlerFor(metrics, opts)
	return func(w http.ResponseWriter, r *http.Request) {
		b := built{ResponseWriter: w, status: http.StatusOK}
		build.ServeHTTP(&b, r)
		// An error means that this is no connection, as in tests.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeWrite))
		w.WriteHeader(b.status)
		_, _ = w.Write(b.body.Bytes()) // the client may be gone
	}
}

// built is a response that is kept until it is complete.
type built struct {
	http.ResponseWriter // for its headers

	status int
	body   bytes.Buffer
}

func (b *built) WriteHeader(status int)      { b.status = status }
func (b *built) Write(p []byte) (int, error) { return b.body.Write(p) }
