package admin

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"xdsrelay/relay/events"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/redact"
)

// order is one endpoint that changes something. Each takes a right, and writes a line to the log, whatever
// becomes of it.
type order struct {
	path    string
	handler http.HandlerFunc
	params  []string // of the query, besides paramFormat
}

// pathPromote is the order that skips the checks of a rollout.
const pathPromote = pathRollout + "promote"

// role returns the role that an order takes.
func (o *order) role() role {
	if strings.HasPrefix(o.path, pathRollout) && o.path != pathPromote {
		return releaser
	}
	return operator
}

// orders are all that there are.
func orders(cfg Config) []order {
	return append(cfg.rolloutOrders(), []order{
		{"/removals/approve", cfg.Tier.release, []string{ops.ParamKey}},
		{"/drain", cfg.Tier.drain, nil},
		{"/reconnect", cfg.reconnect, ops.ReconnectParams()},
		{"/kick", cfg.order(ops.OrderKick), ops.OrderParams(ops.OrderKick)},
		{"/resend", cfg.order(ops.OrderResend), ops.OrderParams(ops.OrderResend)},
		{"/log/level", cfg.setLogLevel, []string{paramPart, paramLevel}},
		{"/config/reload", cfg.reload, nil},
		{"/config/check", cfg.Tier.would, nil},
		{pathApply, cfg.Tier.applyRules, []string{ops.ParamMost}},
	}...)
}

// audited logs each order: who gave it, what it is and what the answer was.
func (cfg Config) audited(path string) func(next http.HandlerFunc) http.HandlerFunc {
	return func(next http.HandlerFunc) http.HandlerFunc {
		if cfg.Log == nil {
			return next
		}
		recent := &recentOrder{}
		if path != pathApply {
			recent = nil
		}
		return func(w http.ResponseWriter, r *http.Request) { cfg.audit(w, r, path, next, recent) }
	}
}

// pathApply is the order that a command sends each second until it is done.
const pathApply = "/rules/apply"

// recentOrder is the last order that was an event, so that its repetitions are none: they would displace
// all other events of a node.
type recentOrder struct {
	mu   sync.Mutex
	what string    // guarded by mu
	at   time.Time // guarded by mu
}

// isNews reports whether an order is an event: it differs from the last one, or a minute has passed. Nil
// remembers nothing.
func (o *recentOrder) isNews(what string, now time.Time) bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if what == o.what && now.Sub(o.at) < time.Minute {
		return false
	}
	o.what, o.at = what, now
	return true
}

func (cfg Config) audit(w http.ResponseWriter, r *http.Request, path string, next http.HandlerFunc, recent *recentOrder) {
	answer := &answered{ResponseWriter: w, status: http.StatusOK}
	next(answer, r)
	result := "done"
	switch {
	case answer.status == http.StatusUnauthorized || answer.status == http.StatusForbidden:
		result = "refused"
	case answer.status >= http.StatusBadRequest:
		result = "failed"
	}
	parameters, identity := parameters(r), cfg.Access.identity(r)
	line := []any{
		"order", path, "parameters", parameters, "peer", r.RemoteAddr,
		"identity", identity, "result", result, "status", answer.status,
	}
	if recent.isNews(parameters+"\n"+identity+"\n"+result, time.Now()) {
		line = append([]any{events.Key, events.OperatorCommand}, line...)
	}
	cfg.Log.Info("operator command", line...)
}

// maxParameters bounds what is logged of an order's parameters, in bytes.
const maxParameters = 256

// parameters are those of an order for people: "key=shop/eu, dry_run=true". A value that could be taken
// for several of them is quoted.
func parameters(r *http.Request) string {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return redact.Short(r.URL.RawQuery, maxParameters)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, v := range values[name] {
			if v == "" || strings.ContainsFunc(v, func(c rune) bool { return c == ',' || c == '"' || unicode.IsSpace(c) || !unicode.IsPrint(c) }) {
				v = strconv.Quote(v)
			}
			all = append(all, name+"="+v)
		}
	}
	return redact.Short(strings.Join(all, ", "), maxParameters)
}

// identity is what a request proved about its sender: the subject of a certificate, the
// kind of a token, or nothing.
func (a Access) identity(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return r.TLS.VerifiedChains[0][0].Subject.String()
	}
	switch is, _ := r.Context().Value(roleKey{}).(role); is {
	case operator:
		return "operator's token"
	case releaser:
		return "rollout token"
	case reader:
		return "reader's token"
	}
	return "none"
}

// answered notes the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }
