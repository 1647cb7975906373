package aggregation

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// variables are those of expressions.
var variables = []string{"node", "peer", "listener"}

// Env compiles conditions: expressions in the language of rules that give a bool.
// It is never changed and safe for concurrent use.
type Env struct {
	env  *cel.Env
	cost uint64
}

// NewEnv sets up the language; costLimit is that of [Options].
func NewEnv(costLimit uint64) (*Env, error) {
	if costLimit == 0 {
		costLimit = defaultCost
	}
	env, err := sharedEnv()
	if err != nil {
		return nil, err
	}
	return &Env{env, costLimit}, nil
}

// Issue is a mistake at a place of an expression, both counted from 1.
type Issue struct {
	Line, Column int
	Message      string
}

// Condition is a compiled expression that gives a bool. It is never changed and
// safe for concurrent use.
type Condition struct {
	program cel.Program
	reads   Fields
	client  bool // it reads the peer or the listener
}

// Condition compiles src, for a decision about access: beside the mistakes that
// every expression may have, what holds for more clients than it seems to is one.
func (e *Env) Condition(src string) (*Condition, []Issue) {
	checked, issues := check(e.env, src, cel.BoolType)
	if len(issues) > 0 {
		return nil, exported(issues)
	}
	tree := checked.NativeRep()
	if issues = append(lint(tree), lintAccess(tree)...); len(issues) > 0 {
		return nil, exported(issues)
	}
	prog, err := program(e.env, checked, e.cost)
	if err != nil {
		return nil, []Issue{{1, 1, oneLine(err.Error())}}
	}
	c := &Condition{program: prog}
	c.look(tree.Expr())
	if value, always := e.constant(checked); always {
		return nil, []Issue{{1, 1, fmt.Sprintf("is %t for every client", value)}}
	}
	return c, nil
}

func exported(issues []issue) []Issue {
	out := make([]Issue, len(issues))
	for i, is := range issues {
		out[i] = Issue{is.line, is.column, is.message}
	}
	return out
}

// Matches reports whether the condition holds. It neither changes nor keeps node.
func (c *Condition) Matches(node *corev3.Node, peer Peer) (bool, error) {
	return evalBool(c.program, values(node, peer))
}

// values are those of the variables.
func values(node *corev3.Node, peer Peer) map[string]any {
	return map[string]any{"node": node, "peer": peer, "listener": peer.Listener}
}

// Reads says which parts of the Node the value depends on.
func (c *Condition) Reads() Fields { return c.reads }

// ReadsClient reports whether it looks at anything that the client does not say
// of itself: its certificate, its address or the listener.
func (c *Condition) ReadsClient() bool { return c.client }

// look notes what e reads, wherever it stands.
func (c *Condition) look(e ast.Expr) {
	if r, args, ok := rootRead(e); ok {
		c.reads.add(r.path)
		for _, a := range args {
			c.look(a)
		}
		return
	}
	if e.Kind() == ast.IdentKind {
		name := strings.TrimPrefix(e.AsIdent(), ".")
		c.client = c.client || name == "peer" || name == "listener"
	}
	for _, child := range children(e) {
		c.look(child)
	}
}

// constant tells whether the value is the same whatever the variables are, as in
// x || true.
func (e *Env) constant(checked *cel.Ast) (value, always bool) {
	prog, err := e.env.Program(checked, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(e.cost))
	if err != nil {
		return false, false
	}
	unknown := make([]*cel.AttributePatternType, len(variables))
	for i, name := range variables {
		unknown[i] = cel.AttributePattern(name)
	}
	vars, err := cel.PartialVars(map[string]any{}, unknown...)
	if err != nil {
		return false, false
	}
	out, _, err := prog.Eval(vars)
	if b, ok := out.(types.Bool); err == nil && ok {
		return bool(b), true
	}
	return false, false
}

// lintAccess refuses calls that say less than who wrote them is likely to mean.
func lintAccess(tree *ast.AST) (issues []issue) {
	var walk func(ast.Expr)
	walk = func(e ast.Expr) {
		if e.Kind() == ast.CallKind {
			if message := lintMatch(e.AsCall()); message != "" {
				issues = append(issues, issueAt(tree, e, message))
			}
		}
		for _, c := range children(e) {
			walk(c)
		}
	}
	walk(tree.Expr())
	return issues
}

func lintMatch(call ast.CallExpr) string {
	args := call.Args()
	if len(args) == 0 {
		return ""
	}
	text, ok := literal(args[len(args)-1])
	if !ok {
		return ""
	}
	switch name := call.FunctionName(); name {
	case "matches":
		if !isTied(text) {
			return "matches() looks for its pattern anywhere in a text: write ^(…)$ around it"
		}
	case "startsWith", "endsWith", "contains":
		if text == "" {
			return name + `("") matches every text`
		}
		if domain, is := strings.CutPrefix(text, "spiffe://"); is && name == "startsWith" && !strings.Contains(domain, "/") {
			return fmt.Sprintf("also matches other trust domains with this prefix: end it with a slash, %q", text+"/")
		}
	}
	return ""
}

// isTied reports whether a pattern says what the whole of a text is, in each of its
// alternatives.
func isTied(pattern string) bool {
	re, err := syntax.Parse(pattern, syntax.Perl) // as matches() does
	return err != nil || ties(re, syntax.OpBeginText) && ties(re, syntax.OpEndText)
}

// ties reports whether whatever matches re does so at an end of the text.
func ties(re *syntax.Regexp, end syntax.Op) bool {
	switch re.Op {
	case end:
		return true
	case syntax.OpCapture:
		return ties(re.Sub[0], end)
	case syntax.OpConcat:
		if end == syntax.OpBeginText {
			return ties(re.Sub[0], end)
		}
		return ties(re.Sub[len(re.Sub)-1], end)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(one *syntax.Regexp) bool { return !ties(one, end) })
	default:
		return false
	}
}
