package admin

import (
	"net/http"

	"xdsrelay/relay/events"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/redact"
)

// order is one endpoint that changes something. Each takes the rights of an operator and
// writes a line to the log, whatever becomes of it.
type order struct {
	path    string
	handler http.HandlerFunc
	params  []string // of the query, besides paramFormat
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
		{"/rules/apply", cfg.Tier.applyRules, []string{ops.ParamMost}},
	}...)
}

// audited logs each order: who gave it, what it is and what the answer was.
func (cfg Config) audited(path string) func(next http.HandlerFunc) http.HandlerFunc {
	return func(next http.HandlerFunc) http.HandlerFunc {
		if cfg.Log == nil {
			return next
		}
		return func(w http.ResponseWriter, r *http.Request) { cfg.audit(w, r, path, next) }
	}
}

func (cfg Config) audit(w http.ResponseWriter, r *http.Request, path string, next http.HandlerFunc) {
	answer := &answered{ResponseWriter: w, status: http.StatusOK}
	next(answer, r)
	result := "done"
	switch {
	case answer.status == http.StatusUnauthorized || answer.status == http.StatusForbidden:
		result = "refused"
	case answer.status >= http.StatusBadRequest:
		result = "failed"
	}
	cfg.Log.Info("operator command", events.Key, events.OperatorCommand, "order", path, "parameters", parameters(r), "peer", r.RemoteAddr,
		"identity", cfg.Access.identity(r), "result", result, "status", answer.status)
}

// maxParameters bounds what is logged of an order's parameters, in bytes.
const maxParameters = 256

func parameters(r *http.Request) string { return redact.Short(r.URL.RawQuery, maxParameters) }

// identity is what a request proved about its sender: the subject of a certificate, the
// kind of a token, or nothing.
func (a Access) identity(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return r.TLS.VerifiedChains[0][0].Subject.String()
	}
	switch is, _ := r.Context().Value(roleKey{}).(role); is {
	case operator:
		return "operator's token"
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
