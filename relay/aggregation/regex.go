package aggregation

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

const (
	regexReplace    = "regex.replace"
	maxRegexText    = 4 << 10 // bytes of a text that regex.replace() takes
	maxRegexReplace = 64      // characters that it puts in for a match
)

// regexFunctions declares regex.replace(text, pattern, with), which puts with in the
// place of every match of an RE2 pattern; \1 to \9 in it are the groups, \0 is the
// match. Name and meaning are those of cel-go's own library of regular expressions,
// which comes with optional values: the analysis of fields knows nothing of those.
func regexFunctions() cel.EnvOption {
	const overload = "regex_replace_string_string_string"
	text, pattern := cost.Arg(0), cost.Arg(1)
	declare := cel.Function(regexReplace, cel.Overload(overload,
		[]*cel.Type{cel.StringType, cel.StringType, cel.StringType}, cel.StringType,
		cel.FunctionBinding(replaceAll)))
	model := cel.CostModel(cost.Overload(overload,
		// As for matches(): linear in the text, for each part of the pattern.
		cost.EvalCost(cost.Sum(cost.Const(cost.CallCost), cost.Length(cost.Result()), cost.Mul(
			cost.Scale(cost.Sum(cost.Length(text), cost.Const(1)), cost.StringTraversalCostFactor),
			cost.Scale(cost.Sum(cost.Length(pattern), cost.Const(1)), cost.RegexStringLengthCostFactor)))),
		cost.ResultSize(cost.AtMost(cost.Const(maxRegexText*maxRegexReplace*2)))))
	return func(e *cel.Env) (*cel.Env, error) {
		e, err := declare(e)
		if err != nil {
			return nil, err
		}
		return model(e)
	}
}

func replaceAll(args ...ref.Val) ref.Val {
	text, pattern, with := string(args[0].(types.String)), string(args[1].(types.String)), string(args[2].(types.String))
	if len(text) > maxRegexText {
		return types.NewErr("%s() of %d bytes, expected at most %d", regexReplace, len(text), maxRegexText)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return types.WrapErr(err)
	}
	template, err := expansion(re, with)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(re.ReplaceAllString(text, template))
}

// expansion writes what is to be put in as package regexp has it.
func expansion(re *regexp.Regexp, with string) (string, error) {
	var b strings.Builder
	escaped := false
	for _, r := range with {
		switch {
		case escaped && r == '\\':
			b.WriteRune(r)
		case escaped && '0' <= r && r <= '9':
			if group := int(r - '0'); group > re.NumSubexp() {
				return "", fmt.Errorf(`\%d is put in, but the pattern has %d groups`, group, re.NumSubexp())
			}
			fmt.Fprintf(&b, "${%c}", r)
		case escaped:
			return "", fmt.Errorf(`\%c cannot be put in, expected \0 to \9 for a group, or \\`, r)
		case r == '\\':
			escaped = true
			continue
		case r == '$':
			b.WriteString("$$")
		default:
			b.WriteRune(r)
		}
		escaped = false
	}
	if escaped {
		return "", fmt.Errorf(`the text to put in ends in \, expected \0 to \9 for a group, or \\`)
	}
	return b.String(), nil
}

// lintRegex finds mistakes in what has to be constant anyway: compiling is not
// linear in a pattern, and a long text to put in multiplies what a client sends.
func lintRegex(args []ast.Expr) string {
	if len(args) != 3 {
		return "" // the type checker has said so
	}
	pattern, ok := literal(args[1])
	if !ok {
		return regexReplace + "() needs a constant pattern"
	}
	with, ok := literal(args[2])
	if !ok || utf8.RuneCountInString(with) > maxRegexReplace {
		return fmt.Sprintf("%s() needs a constant of at most %d characters to put in", regexReplace, maxRegexReplace)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return "not a valid regular expression (RE2 syntax)"
	}
	if _, err := expansion(re, with); err != nil {
		return err.Error()
	}
	return ""
}
