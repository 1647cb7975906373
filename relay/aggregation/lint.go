package aggregation

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// maxReplacement bounds the text that replace() may put in, in characters.
const maxReplacement = 16

// lint refuses what type-checks and still must not run: expressions whose value
// depends on more than their input, that the analysis of fields could misread, or
// with which a client could make the relay allocate without bound. The cost and
// memory limits do not help against the last, as they look at a value once it
// exists: "".replace("", x) of two long strings is their product.
func lint(tree *ast.AST) (issues []issue) {
	var walk func(ast.Expr)
	walk = func(e ast.Expr) {
		message := ""
		switch e.Kind() {
		case ast.ComprehensionKind:
			message = lintLoop(tree, e.AsComprehension())
		case ast.CallKind:
			message = lintCall(e.AsCall())
		}
		if message != "" {
			issues = append(issues, issueAt(tree, e, message))
		}
		for _, c := range children(e) {
			walk(c)
		}
	}
	walk(tree.Expr())
	return issues
}

func lintLoop(tree *ast.AST, c ast.ComprehensionExpr) string {
	for _, v := range []string{c.IterVar(), c.IterVar2()} {
		if slices.Contains(variables, v) {
			return fmt.Sprintf("%s cannot be the name of a loop variable", v)
		}
	}
	over, into := tree.GetType(c.IterRange().ID()), tree.GetType(c.AccuInit().ID())
	if over.Kind() == types.MapKind && into.Kind() == types.ListKind {
		return "makes a list of a map, whose order differs between evaluations; select keys by name"
	}
	return ""
}

func lintCall(call ast.CallExpr) string {
	args := call.Args()
	switch call.FunctionName() {
	case "join", "format":
		return call.FunctionName() + "() is not available, as its result has no bound; use + to concatenate strings"
	case "matches":
		// Matching is linear in the text, compiling is not linear in the pattern.
		if _, ok := literal(args[len(args)-1]); !ok {
			return "matches() needs a constant pattern"
		}
	case regexReplace:
		return lintRegex(args)
	case "replace":
		if len(args) < 2 {
			return ""
		}
		with, ok := literal(args[1])
		if !ok || utf8.RuneCountInString(with) > maxReplacement {
			return fmt.Sprintf("replace() needs a constant of at most %d characters to put in", maxReplacement)
		}
	}
	return ""
}

func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// issueAt places a message at an expression. A selection is placed by cel-go at
// its dot; people look for the field behind it.
func issueAt(tree *ast.AST, e ast.Expr, message string) issue {
	loc := tree.SourceInfo().GetStartLocation(e.ID())
	if loc.Line() < 1 {
		return issue{1, 1, message}
	}
	column := loc.Column() + 1
	if e.Kind() == ast.SelectKind {
		column++
	}
	return issue{loc.Line(), column, message}
}
