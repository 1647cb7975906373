package aggregation

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Limits on expressions. They are far above what a rule needs and low enough that
// no rule, whatever a client puts into its Node, holds up the stream it runs for.
const (
	maxExprChars  = 4096
	defaultCost   = 20_000  // cel-go cost units per evaluation
	memoryLimit   = 4 << 20 // cel-go memory units (about bytes) per evaluation
	maxExprIssues = 5       // reported per expression
)

const nodeType = "envoy.config.core.v3.Node"

// sharedEnv declares node, peer and listener with static types: the proto message, the
// Go struct and a string. Only Struct metadata stays dynamic. The standard library and the string
// extension hold no clock and no randomness, so a key depends on its input alone. All callers
// share one environment: it never changes, and to set it up takes longer than to compile rules.
var sharedEnv = sync.OnceValues(func() (*cel.Env, error) {
	peer := reflect.TypeFor[Peer]()
	env, err := cel.NewCustomEnv(
		cel.StdLib(),
		cel.Macros(cel.StandardMacros...),
		ext.Strings(),
		regexFunctions(),
		cel.Types(&corev3.Node{}),
		ext.NativeTypes(peer, ext.ParseStructTags(true)),
		cel.Variable("node", cel.ObjectType(nodeType)),
		cel.Variable("peer", cel.ObjectType(peer.String())),
		cel.Variable("listener", cel.StringType),
		cel.ParserExpressionSizeLimit(maxExprChars),
		cel.ASTValidators(cel.ValidateRegexLiterals()),
	)
	if err != nil {
		return nil, fmt.Errorf("setting up the rule language: %w", err)
	}
	return env, nil
})

// issue is a mistake at a place of an expression, both counted from 1.
type issue struct {
	line, column int
	message      string
}

// check parses and type-checks src, which must give a value of type want
// (or a dynamic one, which is checked when it is known).
func check(env *cel.Env, src string, want *cel.Type) (*cel.Ast, []issue) {
	ast, iss := env.Compile(src)
	if iss.Err() != nil {
		var out []issue
		for _, e := range iss.Errors()[:min(len(iss.Errors()), maxExprIssues)] {
			out = append(out, describe(src, e))
		}
		return nil, out
	}
	if got := ast.OutputType(); want != nil && !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		msg := fmt.Sprintf("gives %s, expected %s", got, want)
		if want.IsExactType(cel.StringType) {
			msg += "; convert with string(…)"
		}
		return nil, []issue{{1, 1, msg}}
	}
	return ast, nil
}

// describe puts a complaint of cel-go into our words where its own do not help.
func describe(src string, e *cel.Error) issue {
	is := issue{e.Location.Line(), e.Location.Column() + 1, e.Message}
	if is.line < 1 {
		is.line, is.column = 1, 1
	}
	switch {
	case strings.HasPrefix(is.message, "undefined field"):
		// The checker points at the dot; the field stands behind it.
		is.column++
		is.message += fieldHint(src, is.line, is.column)
	case strings.HasPrefix(is.message, "undeclared reference"):
		is.message += " (known are node, peer and listener)"
	case is.message == "invalid matches argument":
		is.message = "not a valid regular expression (RE2 syntax)"
	case strings.Contains(is.message, "input '<EOF>'"):
		is.message = "syntax error: the expression ends too early"
	case strings.HasPrefix(is.message, "Syntax error: "):
		// The list of all tokens that could stand here drowns what is wrong.
		is.message, _, _ = strings.Cut(is.message, " expecting {")
		is.message = "s" + is.message[1:]
	}
	is.message = oneLine(is.message)
	return is
}

// fieldHint lists the fields to choose from when the parent of the unknown field
// is evident from the text before it.
func fieldHint(src string, line, column int) string {
	lines := strings.Split(src, "\n")
	if line > len(lines) {
		return ""
	}
	text := []rune(lines[line-1])
	if column-2 > len(text) || column < 2 {
		return ""
	}
	switch before := string(text[:column-2]); {
	case strings.HasSuffix(before, "node.locality"):
		return " (node.locality has region, zone, sub_zone)"
	case strings.HasSuffix(before, "node"):
		return " (node has id, cluster, locality, metadata, user_agent_name, user_agent_version, client_features and more)"
	case strings.HasSuffix(before, "peer"):
		return " (peer has authenticated, spiffe_id, uris, dns_names, common_name, address, listener)"
	}
	return ""
}

// program makes a checked expression runnable. The result is safe for concurrent
// use.
func program(env *cel.Env, ast *cel.Ast, costLimit uint64) (cel.Program, error) {
	return env.Program(ast,
		cel.EvalOptions(cel.OptOptimize),
		cel.CostLimit(costLimit),
		cel.MemoryLimit(memoryLimit))
}

// evalBool and evalString run an expression; the error says what it gave instead.

func evalBool(p cel.Program, vars map[string]any) (bool, error) {
	v, _, err := p.Eval(vars)
	if err != nil {
		return false, err
	}
	if b, ok := v.(types.Bool); ok {
		return bool(b), nil
	}
	return false, gave(v, "bool")
}

func evalString(p cel.Program, vars map[string]any) (string, error) {
	v, _, err := p.Eval(vars)
	if err != nil {
		return "", err
	}
	if s, ok := v.(types.String); ok {
		return string(s), nil
	}
	return "", gave(v, "string")
}

func gave(v ref.Val, want string) error {
	return fmt.Errorf("gives %s, expected %s", v.Type().TypeName(), want)
}
