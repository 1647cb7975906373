package config

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/yamlpos"
)

// checkRules compiles the rules and reports each mistake at its place in the file.
func (d *decoder) checkRules(cfg *Config) {
	_, err := aggregation.Compile(cfg.Aggregation.Rules, aggregation.Options{})
	for _, err := range flatten(err) {
		var mistake *aggregation.CompileError
		if !errors.As(err, &mistake) {
			d.wrong("aggregation.rules", "%v", err)
			continue
		}
		path := "aggregation.rules[" + strconv.Itoa(mistake.Index) + "]." + mistake.Field
		if mistake.Field == "pass_fields" {
			path += "[" + strconv.Itoa(mistake.Item) + "]"
		}
		d.misruled(path, mistake)
	}
}

// misruled reports a mistake in a rule, whose field is at path.
func (d *decoder) misruled(path string, mistake *aggregation.CompileError) {
	message := mistake.Message
	if mistake.Line > 0 {
		message = "line " + strconv.Itoa(mistake.Line) + ", column " + strconv.Itoa(mistake.Column) + " of the expression: " + message
	}
	at, exact := d.inExpression(d.at(path), mistake)
	d.fail(at, path, "%s", message)
	if !exact && mistake.Line > 0 {
		// The expression is not in the file as it was compiled (escapes, folding, a
		// flag): show it as it was.
		last := &d.problems[len(d.problems)-1]
		last.more = "      which is read as\n     " + strings.ReplaceAll(mistake.Snippet(), "\n", "\n     ")
	}
}

// inExpression is the place of a mistake inside an expression that is at a place of
// the file, if the line of the expression stands there as it was compiled.
func (d *decoder) inExpression(at place, mistake *aggregation.CompileError) (in place, exact bool) {
	source := strings.Split(mistake.Source, "\n")
	if at.Line == 0 || mistake.Line < 1 || mistake.Line > len(source) {
		return at, false
	}
	wanted, line, from, column := source[mistake.Line-1], at.Line+mistake.Line-1, at.Column-1, mistake.Column
	if wanted == "" && mistake.Line > 1 { // the end of the text: show the end of its last line
		wanted, line = source[mistake.Line-2], line-1
		column = utf8.RuneCountInString(wanted) + 1
	}
	if at.block {
		line, from = line+1, 0
	} else if mistake.Line > 1 {
		return at, false // in quotes or folded
	}
	if line > len(d.lines) {
		return at, false
	}
	runes := []rune(d.lines[line-1])
	text := string(runes[min(from, len(runes)):])
	start := strings.Index(text, wanted)
	if start < 0 || wanted == "" {
		return at, false
	}
	column += from + utf8.RuneCountInString(text[:start])
	return place{source: at.source, At: yamlpos.At{Line: line, Column: column, Width: 1}}, true
}

// flatten lists what errors.Join has joined.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
