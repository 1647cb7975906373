// Package admin is the HTTP interface for operators: health, readiness, metrics,
// profiles, and the state of keys and streams, as tables for people and as JSON
// for programs, and the few orders that there are for a running node.
package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/csds"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/redact"
)

// Config is where the handler gets what it shows. All fields but Access, TraceURL and Log are required, and
// all functions are called concurrently.
type Config struct {
	// Title names node and version on the index page.
	Title string
	// Ready returns nil, or why the node should get no clients now.
	Ready func() error
	// Keys, Streams and Origins describe the state as it is now; there is at least
	// one origin.
	Keys    func() []cache.GroupInfo
	Streams func() []fanout.StreamInfo
	Origins func() []ops.OriginInfo
	// Check recomputes the state and returns a sentence for each contradiction.
	Check func() []string
	// ClientStatus answers who has what, to a POST (K20).
	ClientStatus http.Handler
	// Tier is about all nodes together.
	Tier Tier
	// TraceURL is the URL of a trace, with {trace_id} in it; empty for none.
	TraceURL string
	// Levels are those of the log; nil where they cannot be changed.
	Levels *logs.Levels
	// Settings tells what became of the configuration, and Reload reads it again.
	Settings func() ops.Settings
	Reload   func() (ops.Settings, error)
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	// Access says who may see this, and who may give orders.
	Access Access
	// Log gets a line for each order; nil for none.
	Log *slog.Logger
}

// page is one endpoint, as the index lists it.
type page struct {
	path    string // a pattern of http.ServeMux without the method
	link    string // where the index points; empty for path
	text    string
	handler http.HandlerFunc
	params  []string // of the query, besides paramFormat
}

// pages are all endpoints.
func pages(cfg Config) []page {
	v := &watcher{cfg: cfg}
	return append([]page{
		{"/healthz", "", "200 while the process runs", cfg.healthz, nil},
		{"/readyz", "", "200 while the node is ready for clients, otherwise 503 with the reason; verbose adds the warnings of the node", cfg.readyz, []string{paramVerbose}},
		{"/metrics", "", "metrics in the Prometheus format", scrapes(cfg.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}), []string{paramMetric}},
		{"/debug/keys", "", "the aggregation keys of this node: upstream state and tables", cfg.keys, []string{ops.ParamKey}},
		{"/debug/streams", "", "the clients of this node: versions sent, acknowledged (ACK) and rejected (NACK)", cfg.streams, []string{ops.ParamKey, paramNode, paramState}},
		{"/debug/upstreams", "", "the upstreams of this node, and their problems", cfg.origins, nil},
		{"/debug/check", "", "consistency check of the state; 500 if it fails. Reads the whole cache", cfg.check, nil},
		{"/log", "", "the log levels, by part", cfg.logLevels, nil},
		{"/config", "", "the active configuration: time of the last load, rejected changes, and fields that need a restart", cfg.settings, nil},
		{"/tier/nodes", "", "the nodes of the tier, their states, and the warnings", v.nodes, nil},
		{"/tier/keys", "", "the keys on all nodes: owner, followers and problems", cfg.Tier.keys, []string{ops.ParamKey}},
		{"/tier/owner", "/tier/owner?key=KEY", "the owner of a key", cfg.Tier.owner, []string{ops.ParamKey}},
		{profiles, "", "profiles of the process, for go tool pprof", pprof.Index, []string{"debug", "gc", "seconds"}},
		{profiles + "cmdline", "", "command line without passwords", commandLine(os.Args), nil},
		{profiles + "profile", profiles + "profile?seconds=10", "a CPU profile", pprof.Profile, []string{"seconds"}},
		{profiles + "symbol", "", "the function names of program counters", pprof.Symbol, []string{wholeQuery}},
		{profiles + "trace", profiles + "trace?seconds=1", "an execution trace", pprof.Trace, []string{"seconds"}},
	}, append(append(cfg.Tier.apiPages(), cfg.Tier.rolloutPages(v)...), cfg.livePages(v)...)...)
}

// profiles is where the profiles of the process are. They look into it and can
// burden it, so that they take the rights of an operator.
const profiles = "/debug/pprof/"

// commandLine shows the arguments of a program, one in a line.
func commandLine(args []string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, arg := range args {
			writeText(w, Printable(redact.Text(arg))+"\n")
		}
	}
}

// Endpoint is something that a port serves.
type Endpoint struct {
	Method string
	// Path is a pattern of http.ServeMux without the method.
	Path string
	// Params are the parameters of the query that it reads. "*" means the query as it is.
	Params []string

	handler http.HandlerFunc
}

// Endpoints are all that [Handler] serves.
func Endpoints() []Endpoint { return endpoints(Config{}) }

func endpoints(cfg Config) (all []Endpoint) {
	pages := pages(cfg)
	add := func(method, path string, params []string, handler http.HandlerFunc, wrap ...func(http.HandlerFunc) http.HandlerFunc) {
		params = append(slices.Clone(params), paramFormat)
		handler = reading(params, handler)
		for _, w := range wrap {
			handler = w(handler)
		}
		all = append(all, Endpoint{method, path, params, handler})
	}
	for _, p := range pages {
		if strings.HasPrefix(p.path, profiles) {
			add(http.MethodGet, p.path, p.params, p.handler, cfg.Access.permits(operator))
		} else {
			add(http.MethodGet, p.path, p.params, p.handler) // GET stands for HEAD too; others get a 405
		}
	}
	add(http.MethodPost, csds.Path, []string{csds.ParamNode}, func(w http.ResponseWriter, r *http.Request) { cfg.ClientStatus.ServeHTTP(w, r) })
	add(http.MethodPost, "/tier/explain", []string{paramPeer}, cfg.Tier.explain, ordered)
	for _, o := range orders(cfg) {
		add(http.MethodPost, o.path, o.params, o.handler, cfg.Access.permits(o.role()), ordered, cfg.audited(o.path))
	}
	add(http.MethodGet, "/{$}", nil, home(index(cfg.Title, pages)))
	add(http.MethodGet, uiPath+"{name}", nil, func(w http.ResponseWriter, r *http.Request) { uiFile(w, r, r.PathValue("name")) })
	add(http.MethodGet, "/debug/{$}", nil, index(cfg.Title, pages))
	return all
}

// Handler serves the admin endpoints.
func Handler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	for _, e := range endpoints(cfg) {
		mux.HandleFunc(e.Method+" "+e.Path, e.handler)
	}
	return cfg.Access.guard(cfg.Access.trusted(cfg.Access.admitted(mux)))
}

func (cfg Config) healthz(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok\n") }

func (cfg Config) readyz(w http.ResponseWriter, r *http.Request) {
	if err := cfg.Ready(); err != nil {
		if cfg.Access.asksToken(r) {
			err = errors.New("send a token to see the reason")
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		writeText(w, "not ready: "+Printable(err.Error())+"\n")
		return
	}
	writeText(w, "ok\n")
	if r.URL.Query().Has(paramVerbose) && !cfg.Access.asksToken(r) {
		WriteWarnings(w, ops.WarningsOf(cfg.Tier.Own(), cfg.Tier.Members()), time.Now())
	}
}

func (cfg Config) check(w http.ResponseWriter, r *http.Request) {
	wrong := append([]string{}, cfg.Check()...)
	status := http.StatusOK
	if len(wrong) > 0 {
		status = http.StatusInternalServerError
	}
	if wantsJSON(r) {
		writeJSON(w, status, struct {
			OK       bool     `json:"ok"`
			Problems []string `json:"problems"`
		}{len(wrong) == 0, wrong})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	if len(wrong) == 0 {
		writeText(w, "ok\n")
	}
	for _, sentence := range wrong {
		writeText(w, Printable(sentence)+"\n")
	}
}
