package authorize

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason says in one word why a client was refused. The set is closed, so it may be
// a metric label.
type Reason string

const (
	// Denied: a rule with deny matches.
	Denied Reason = "denied"
	// NoRule: no rule matches.
	NoRule Reason = "no_rule"
	// Failed: a rule could not be asked about the client, most often because it
	// lacks a metadata key that the rule reads.
	Failed Reason = "failed"
)

// Refusal is the answer to a client that is not let in. It holds nothing of what the
// client says of itself.
type Refusal struct {
	Rule   string // the rule that refused; empty for NoRule
	Reason Reason
	detail string
}

// Error names the rule, or those that were tried.
func (r *Refusal) Error() string {
	switch r.Reason {
	case Denied:
		return "authorization rule " + r.Rule + " denies this client"
	case Failed:
		return "authorization rule " + r.Rule + " cannot be evaluated for this client: " + r.detail
	}
	return "no authorization rule allows this client's Node (tried: " + r.detail + ")"
}

// GRPCStatus lets a handler return a Refusal as it is.
func (r *Refusal) GRPCStatus() *status.Status { return status.New(codes.PermissionDenied, r.Error()) }

// inWords says why an expression failed, without the values that it failed on: they
// may be anything that a client put into its metadata, and this goes to the log.
func inWords(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "no such key"):
		return "it lacks a metadata key that the rule reads; has(…) asks first"
	case strings.Contains(text, "no such overload"), strings.Contains(text, "gives "):
		return "a value in its metadata is of another type than the rule expects"
	case strings.Contains(text, "cost limit"), strings.Contains(text, "memory limit"):
		return "it would take too long"
	case strings.Contains(text, "index out of bounds"), strings.Contains(text, "no such attribute"):
		return "it has fewer values than the rule expects"
	}
	return "the expression fails on its values"
}
