package aggregation

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CompileError is one mistake in one rule. [Compile] joins all it finds with
// errors.Join, so errors.As gives the first.
type CompileError struct {
	List    string // what the rules are called; empty means "rules"
	Index   int    // position of the rule in the list, from 0
	Rule    string // its name; may be empty
	Field   string // "name", "match", "key" or "pass_fields"
	Item    int    // for "pass_fields": position of the entry, from 0; otherwise 0
	Source  string // the text at fault; empty where something is missing
	Line    int    // in Source, from 1; 0 where there is no place to point at
	Column  int    // in characters, from 1; 0 where there is no place to point at
	Message string // what is wrong and what was expected; one line
}

// Error gives the place, the message and, below, the source line with a caret.
func (e *CompileError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s[%d]", cmp.Or(e.List, "rules"), e.Index)
	if e.Rule != "" {
		fmt.Fprintf(&b, " %q", e.Rule)
	}
	fmt.Fprintf(&b, ": %s", e.Field)
	if e.Field == "pass_fields" {
		fmt.Fprintf(&b, "[%d]", e.Item)
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, ", line %d, column %d", e.Line, e.Column)
	}
	b.WriteString(": " + e.Message)
	if s := e.Snippet(); s != "" {
		b.WriteString("\n" + s)
	}
	return b.String()
}

// snippetWidth bounds the part of a line that a snippet shows, in characters.
const snippetWidth = 100

// Snippet is the source line with a caret below the mistake, each line indented
// by " | "; of a long line, the part around the mistake. It is empty where there
// is no place to point at.
func (e *CompileError) Snippet() string {
	lines := strings.Split(e.Source, "\n")
	if e.Line < 1 || e.Line > len(lines) {
		return ""
	}
	line, at := []rune(lines[e.Line-1]), max(e.Column-1, 0)
	at = min(at, len(line))
	if from := at - snippetWidth/2; from > 0 && len(line) > snippetWidth {
		line, at = line[from:], at-from
	}
	line = line[:min(len(line), snippetWidth)]
	pad := make([]rune, at)
	for i := range pad {
		pad[i] = ' '
		if line[i] == '\t' { // a tab stays a tab, or the caret would stand elsewhere
			pad[i] = '\t'
		}
	}
	return " | " + string(line) + "\n | " + string(pad) + "^"
}

// Reason says in one word why a client was refused. The set is closed, so it may
// be a metric label.
type Reason string

const (
	// NoNodeID: the first request has no node id (B1).
	NoNodeID Reason = "no_node_id"
	// BadNode: the Node is larger than any rule may be asked to read, has an id or
	// a cluster that is too long to be kept, or announces more client features than
	// can be told apart.
	BadNode Reason = "bad_node"
	// NoRule: no rule matches the client.
	NoRule Reason = "no_rule"
	// RuleFailed: an expression ended in an error, gave the wrong type, or cost too
	// much; most often the client lacks a metadata key that the rule reads.
	RuleFailed Reason = "rule_failed"
	// EmptyKey: the key expression gave "".
	EmptyKey Reason = "empty_key"
	// BadKey: the key is too long or holds characters that cannot be printed.
	BadKey Reason = "bad_key"
)

// Refusal is the answer to a client that gets no key. It is final for the
// stream: nothing but another Node or another rule set changes it.
type Refusal struct {
	Rule   string // the rule at fault; empty for NoNodeID, BadNode and NoRule
	Reason Reason
	Detail string // one line: what is wrong and what was expected
}

// Error names the rule, if one is at fault, and the reason.
func (r *Refusal) Error() string {
	if r.Rule == "" {
		return r.Detail
	}
	return "rule " + r.Rule + ": " + r.Detail
}

// Code is the gRPC status code for the client: PERMISSION_DENIED where no rule
// lets it in, INVALID_ARGUMENT where its own Node is at fault (B1).
func (r *Refusal) Code() codes.Code {
	if r.Reason == NoRule {
		return codes.PermissionDenied
	}
	return codes.InvalidArgument
}

// GRPCStatus lets a handler return a Refusal as it is.
func (r *Refusal) GRPCStatus() *status.Status { return status.New(r.Code(), r.Error()) }

// maxDetail bounds what an evaluation error may quote, in characters: such errors
// hold values that the client chose, and they end up in logs and statuses.
const maxDetail = 300

// oneLine makes an error text safe to log: bounded, and printable throughout.
func oneLine(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == maxDetail {
			b.WriteString("…")
			break
		}
		n++
		if !unicode.IsPrint(r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}
