package aggregation

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
)

// compiler compiles one rule and collects what is wrong with it.
type compiler struct {
	env    *cel.Env
	cost   uint64
	index  int
	config Rule
	errs   []error
}

func (c *compiler) fail(field string, item int, source string, issues ...issue) {
	for _, is := range issues {
		c.errs = append(c.errs, &CompileError{
			Index: c.index, Rule: c.config.Name, Field: field, Item: item,
			Source: source, Line: is.line, Column: is.column, Message: is.message,
		})
	}
}

func (c *compiler) compile() rule {
	r := rule{config: c.config, name: c.config.NameAt(c.index)}
	if err := checkText(r.name); err != nil {
		c.fail("name", 0, "", issue{message: fmt.Sprintf("%q is not a name, expected printable characters", r.name)})
	}
	if c.config.Match != "" {
		ast, prog := c.expression("match", c.config.Match, cel.BoolType)
		if ast != nil {
			c.fail("match", 0, c.config.Match, lint(ast.NativeRep())...)
		}
		r.match = prog
		r.reads.of(ast)
	}
	if strings.TrimSpace(c.config.Key) == "" {
		c.fail("key", 0, "", issue{message: "is missing, expected a CEL expression that gives a string, like node.cluster"})
	} else if ast, prog := c.expression("key", c.config.Key, cel.StringType); ast != nil {
		a, issues := analyzeKey(ast)
		c.fail("key", 0, c.config.Key, issues...)
		r.key, r.analysis = prog, a
		r.reads.of(ast)
	}
	if c.config.NodeField != "" {
		c.checkShown()
		r.paths, r.exact = []path{c.config.shownPath()}, false
	}
	r.addPaths(c.passList())
	for _, p := range r.paths {
		r.reads.add(p)
	}
	r.reads.numbers |= alwaysRead
	r.mark, r.marked = r.analysis.mark()
	return r
}

// expression compiles one of the rule's expressions; nil after a mistake.
func (c *compiler) expression(field, src string, want *cel.Type) (*cel.Ast, cel.Program) {
	ast, issues := check(c.env, src, want)
	if len(issues) > 0 {
		c.fail(field, 0, src, issues...)
		return nil, nil
	}
	prog, err := program(c.env, ast, c.cost)
	if err != nil {
		c.fail(field, 0, src, issue{1, 1, oneLine(err.Error())})
		return nil, nil
	}
	return ast, prog
}

func (c *compiler) passList() (paths []path) {
	const prefix = "node."
	for i, entry := range c.config.PassFields {
		if strings.TrimSpace(entry) == "" {
			c.fail("pass_fields", i, "", issue{message: "is empty, expected a field like locality.region"})
			continue
		}
		ast, issues := check(c.env, prefix+entry, nil)
		if len(issues) > 0 {
			is := issues[0]
			if is.line == 1 {
				is.column = max(is.column-len(prefix), 1)
			}
			if strings.HasPrefix(entry, prefix) {
				is.message = `write the field without "node."`
			}
			c.fail("pass_fields", i, entry, is)
			continue
		}
		p, is := parsePass(ast)
		if is != nil {
			c.fail("pass_fields", i, entry, *is)
		}
		paths = append(paths, p...)
	}
	return paths
}

// addPaths adds the pass list. The key stays exact only if it adds nothing.
func (a *analysis) addPaths(more []path) {
	all := normalize(append(append([]path{}, a.paths...), more...))
	a.exact = a.exact && len(all) == 1 && all[0].String() == a.paths[0].String()
	a.paths = all
}
