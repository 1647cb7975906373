package aggregation

import (
	"cel.dev/cel-go/cel"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Text is a compiled expression that gives a string, such as the group of a client. It is never
// changed and safe for concurrent use.
type Text struct {
	program cel.Program
	reads   Reads
}

// Text compiles src.
func (e *Env) Text(src string) (*Text, []Issue) {
	checked, issues := check(e.env, src, cel.StringType)
	if len(issues) > 0 {
		return nil, exported(issues)
	}
	if issues = lint(checked.NativeRep()); len(issues) > 0 {
		return nil, exported(issues)
	}
	prog, err := program(e.env, checked, e.cost)
	if err != nil {
		return nil, []Issue{{1, 1, oneLine(err.Error())}}
	}
	t := &Text{program: prog}
	t.reads.of(checked)
	return t, nil
}

// Of returns the text for a client. It neither changes nor keeps node.
func (t *Text) Of(node *corev3.Node, peer Peer) (string, error) {
	return evalString(t.program, values(node, peer))
}

// Reads returns what the text depends on.
func (t *Text) Reads() Reads { return t.reads }
