package yamlpos

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits bound a file.
type Limits struct {
	Bytes  int // of the file, and of the JSON that is made of it
	Values int // with what aliases repeat
	Depth  int // levels of nesting; 0 means 500, more is never allowed

	// NoReferences makes each anchor, alias and tag a value of the kind [Reference], and << a
	// name like any other.
	NoReferences bool
}

// Parse reads the one document of a file; nil if the file has none. An error is an [*Error]. It is
// returned together with the document if the only mistake is that another one follows.
func Parse(data []byte, limits Limits) (root *Value, err error) {
	if len(data) > limits.Bytes {
		return nil, fail(At{}, "has %d bytes, expected at most %s", len(data), size(limits.Bytes))
	}
	data = plainBreaks(data)
	if !utf8.Valid(data) {
		return nil, fail(At{Line: invalidLine(data), Column: 1}, "is not UTF-8 text")
	}
	if line, problem := exceeds(data); line > 0 {
		return nil, fail(At{Line: line, Column: 1}, "%s", problem)
	}
	defer func() { // the parser panics on some malformed input
		if recover() != nil {
			root, err = nil, fail(At{}, "is not YAML that can be read")
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, syntaxError(err)
	}
	limits.Depth = cmp.Or(limits.Depth, maxDepth)
	r := &reader{Limits: limits, anchors: make(map[string]*Value)}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.DirectiveType || doc.Body.Type() == ast.CommentType:
		case root != nil:
			return root, fail(atNode(doc.Body), "a second YAML document begins here, expected one")
		default:
			if root, err = r.value(doc.Body); err != nil {
				return nil, err
			}
		}
	}
	return root, nil
}

// Lines returns the lines of a file as [Parse] counts them.
func Lines(data []byte) []string { return strings.Split(string(plainBreaks(data)), "\n") }

// plainBreaks makes every line break a newline. A lone carriage return is a line break in YAML, too,
// and all that count lines have to agree with the parser.
func plainBreaks(data []byte) []byte {
	if bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
}

// invalidLine is the number of the first line that is not UTF-8.
func invalidLine(data []byte) int {
	n := 0
	for line := range bytes.Lines(data) {
		if n++; !utf8.Valid(line) {
			break
		}
	}
	return n
}

func size(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%d", n)
}

// syntaxError adds what was expected to those messages of the parser that most users will see.
func syntaxError(err error) *Error {
	syntax, ok := errors.AsType[yaml.Error](err)
	if !ok || syntax.GetToken() == nil {
		message, _, _ := strings.Cut(err.Error(), "\n")
		return &Error{Message: message, Quotes: true}
	}
	message := "not valid YAML: " + strings.ReplaceAll(syntax.GetMessage(), "character '\t'", "a tab")
	switch {
	case strings.Contains(message, "tab"):
		message += "; expected spaces"
	case strings.Contains(message, "mapping value is not allowed"):
		message += "; expected the next line to be indented like this field, or quotes around a text with a colon"
	}
	return &Error{At: atToken(syntax.GetToken()), Message: message, Quotes: true}
}

// reader makes values of what the parser returns.
type reader struct {
	Limits
	anchors map[string]*Value // nil while the value of an anchor is being read
}

func (r *reader) value(n ast.Node) (*Value, error) {
	v := &Value{At: atNode(n), values: 1}
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		if r.NoReferences {
			v.Kind = Reference
			return v, nil
		}
		return r.reference(n)
	case *ast.MappingNode:
		return v, r.fields(v, n.Values)
	case *ast.MappingValueNode:
		return v, r.fields(v, []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		v.Kind = List
		for _, item := range n.Values {
			child, err := r.value(item)
			if err != nil {
				return nil, err
			}
			if err := r.count(v, child, atNode(item)); err != nil {
				return nil, err
			}
			v.Items = append(v.Items, child)
		}
	case nil, *ast.NullNode:
	case *ast.BoolNode:
		v.Kind, v.Text = Bool, strconv.FormatBool(n.Value)
	case *ast.IntegerNode:
		v.Kind, v.Text = Int, n.GetToken().Value
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		v.Kind, v.Text = Float, n.GetToken().Value
	case *ast.StringNode:
		v.Kind, v.Text = Text, n.Value
	case *ast.LiteralNode:
		v.Kind, v.Text = Block, n.Value.Value
	default:
		return nil, fail(v.At, "a %s, expected fields, a list or a single value", n.Type())
	}
	return v, nil
}

// count adds child, which is at a position, to the size of v.
func (r *reader) count(v, child *Value, at At) error {
	v.values += child.values
	v.depth = max(v.depth, child.depth+1)
	switch {
	case v.depth > r.Depth:
		return fail(at, "nested more than %d levels deep", r.Depth)
	case v.values > r.Values:
		return fail(at, "more than %d values, with those that aliases repeat", r.Values)
	}
	return nil
}

// reference returns the value of an anchor, an alias or a tag.
func (r *reader) reference(n ast.Node) (*Value, error) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		r.anchors[name] = nil
		v, err := r.value(n.Value)
		r.anchors[name] = v
		return v, err
	case *ast.AliasNode:
		if v := r.anchors[n.Value.GetToken().Value]; v != nil {
			return v, nil
		}
		return nil, fail(atNode(n), "an alias without an anchor above it")
	case *ast.TagNode:
		scalar, ok := n.Value.(ast.ScalarNode)
		if ok && n.Start.Value == "!!str" && scalar.Type() != ast.StringType && scalar.Type() != ast.LiteralType {
			return &Value{At: atNode(scalar), Kind: Text, Text: scalar.GetToken().Value, values: 1}, nil
		}
		return r.value(n.Value) // no other tag changes a value
	}
	return r.value(n)
}

// fields reads the fields of a value, followed by those that it merges in. Its own fields win.
func (r *reader) fields(v *Value, pairs []*ast.MappingValueNode) error {
	v.Kind = Fields
	var merges []*Value
	for _, pair := range pairs {
		name, merge, err := r.key(pair.Key)
		if err != nil {
			return err
		}
		child, err := r.value(pair.Value)
		if err != nil {
			return err
		}
		at := atToken(pair.Key.GetToken())
		if err := r.count(v, child, at); err != nil {
			return err
		}
		if merge {
			merges = append(merges, child)
			continue
		}
		v.Fields = append(v.Fields, Field{name, at, child})
	}
	if merges == nil {
		return nil
	}
	have := make(map[string]bool, len(v.Fields))
	for _, f := range v.Fields {
		have[f.Name] = true
	}
	for _, m := range merges {
		if err := v.merge(m, have); err != nil {
			return err
		}
	}
	return nil
}

// merge adds the fields of m, or of the values of the list m, that v does not have.
func (v *Value) merge(m *Value, have map[string]bool) error {
	if m.Kind != Fields && m.Kind != List {
		return fail(m.At, "<< merges fields in, got %s", m.Kind)
	}
	for _, item := range m.Items {
		if err := v.merge(item, have); err != nil {
			return err
		}
	}
	for _, f := range m.Fields {
		if !have[f.Name] {
			have[f.Name] = true
			v.Fields = append(v.Fields, f)
		}
	}
	return nil
}

// key returns the name of a field, or that it is the key << of a merge.
func (r *reader) key(n ast.MapKeyNode) (name string, merge bool, err error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, false, nil
	case *ast.MergeKeyNode:
		return n.GetToken().Value, !r.NoReferences, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.LiteralNode:
		return n.GetToken().Value, false, nil
	case *ast.AnchorNode:
		if v, err := r.value(n); err == nil && v.Kind.Scalar() {
			return v.Text, false, nil
		}
	}
	return "", false, fail(atToken(n.GetToken()), "this cannot be the name of a field, expected a text")
}
