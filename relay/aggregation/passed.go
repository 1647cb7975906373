package aggregation

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// read is one access to the Node found in an expression.
type read struct {
	path  path // empty: the whole Node
	exact bool // the expression's value is the field's value and no part of it
	expr  ast.Expr
}

// rootRead tells whether e selects from the variable node, and what. The walk
// down stops at the first step that is not a constant name: node.metadata[x] and
// node.metadata.list[0] read metadata and metadata.list as a whole. Expressions
// that pick such a step are returned in args.
func rootRead(e ast.Expr) (r read, args []ast.Expr, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return read{exact: true, expr: e}, nil, isNode(e.AsIdent())
	case ast.SelectKind:
		sel := e.AsSelect()
		r, args, ok = rootRead(sel.Operand())
		if r.exact {
			r.path = append(r.path, sel.FieldName())
			r.exact = !sel.IsTestOnly() // has(x) tells of x only whether it is there
			r.expr = e
		}
		return r, args, ok
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index || len(call.Args()) != 2 {
			return read{}, nil, false
		}
		r, args, ok = rootRead(call.Args()[0])
		index := call.Args()[1]
		if r.exact && index.Kind() == ast.LiteralKind {
			if name, isName := index.AsLiteral().(types.String); isName {
				r.path = append(r.path, string(name))
				r.expr = e
				return r, args, ok
			}
		}
		r.exact = false
		return r, append(args, index), ok
	}
	return read{}, nil, false
}

// isNode reports whether an identifier is the variable node; a leading dot is
// CEL's way to write the global one. Loop variables cannot have that name, see
// lint.
func isNode(ident string) bool { return strings.TrimPrefix(ident, ".") == "node" }

// valueReads collects the Node fields whose value can flow into the value of e.
// The condition of a ?: chooses and does not flow; everything else is taken to
// flow. Either error would be safe, as the Key is bound to what is passed and not
// to what should be: a field too many splits a group, one too few hides from the
// control plane what the group is about.
func valueReads(e ast.Expr, visit func(read)) {
	if r, args, ok := rootRead(e); ok {
		visit(r)
		for _, a := range args {
			valueReads(a, visit)
		}
		return
	}
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Conditional {
		args := e.AsCall().Args()
		valueReads(args[1], visit)
		valueReads(args[2], visit)
		return
	}
	for _, c := range children(e) {
		valueReads(c, visit)
	}
}

// children are the direct subexpressions of e.
func children(e ast.Expr) []ast.Expr {
	switch e.Kind() {
	case ast.SelectKind:
		return []ast.Expr{e.AsSelect().Operand()}
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			return append([]ast.Expr{call.Target()}, call.Args()...)
		}
		return call.Args()
	case ast.ListKind:
		return e.AsList().Elements()
	case ast.MapKind:
		var out []ast.Expr
		for _, en := range e.AsMap().Entries() {
			out = append(out, en.AsMapEntry().Key(), en.AsMapEntry().Value())
		}
		return out
	case ast.StructKind:
		var out []ast.Expr
		for _, en := range e.AsStruct().Fields() {
			out = append(out, en.AsStructField().Value())
		}
		return out
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		return []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()}
	}
	return nil
}

// analysis is what a checked key expression says about the upstream Node.
type analysis struct {
	paths []path // to pass, normalized
	exact bool   // the key is the value of paths[0], and of nothing else
}

// analyzeKey finds the fields that the key is made of (K4).
func analyzeKey(checked *cel.Ast) (analysis, []issue) {
	tree := checked.NativeRep()
	issues := lint(tree)
	var a analysis
	valueReads(tree.Expr(), func(r read) {
		if len(r.path) == 0 {
			issues = append(issues, issueAt(tree, r.expr, "uses the whole node; select the fields that the key is made of, like node.cluster"))
			return
		}
		paths, err := passable(r.path)
		if err != nil {
			issues = append(issues, issueAt(tree, r.expr, err.Error()))
			return
		}
		a.paths = append(a.paths, paths...)
	})
	if len(issues) > 0 {
		return analysis{}, issues
	}
	a.paths = normalize(a.paths)
	// Only a string can be a key, so a root read that stayed exact is one string.
	root, _, ok := rootRead(tree.Expr())
	a.exact = ok && root.exact && len(a.paths) == 1
	return a, nil
}

// parsePass reads an entry of a pass list. It is a field written as in an
// expression, without "node.", and goes through the same checker.
func parsePass(checked *cel.Ast) ([]path, *issue) {
	tree := checked.NativeRep()
	r, _, ok := rootRead(tree.Expr())
	if !ok || !r.exact || len(r.path) == 0 {
		return nil, &issue{1, 1, `is not a field, expected one like user_agent_name, locality.region, metadata.team or metadata["a.b"]`}
	}
	if r.path[0] == "client_features" {
		return nil, &issue{1, 1, "client_features are not needed here: those that change payloads are always part of the key and the upstream Node"}
	}
	paths, err := passable(r.path)
	if err != nil {
		return nil, &issue{1, 1, err.Error()}
	}
	return paths, nil
}
