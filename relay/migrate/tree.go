package migrate

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"xdsrelay/relay/yamlbounds"
)

const (
	maxFile  = 1 << 20 // bytes of a file
	maxNodes = 100_000 // values of a file, with those that aliases repeat
	maxDepth = 64      // of values within values
)

// place is where something stands, counted from 1; the zero value is nowhere.
type place struct {
	file         string
	line, column int
}

type kind int

const (
	isNull kind = iota
	isScalar
	isList
	isFields
)

func (k kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "fields"}[k]
}

// tree is a YAML value with the place of each part. Names of fields are in the form
// of .proto files, however the file has them: both are allowed there.
type tree struct {
	at     place
	kind   kind
	text   string // of a scalar
	fields []field
	items  []*tree
}

type field struct {
	name  string
	at    place
	value *tree
}

// get returns the value of a field; nil if it is not there or null.
func (t *tree) get(name string) *tree {
	for _, f := range t.fields {
		if f.name == name && f.value.kind != isNull {
			return f.value
		}
	}
	return nil
}

// reader turns what the YAML parser gives into a tree.
type reader struct {
	file    string
	left    int // values that may still come
	anchors map[string]ast.Node
}

// readTree reads a file.
func readTree(f File) (*tree, *Problem) {
	at := place{file: f.Name}
	if len(f.Data) > maxFile {
		return nil, problem(at, "has %d bytes, expected at most %d", len(f.Data), maxFile)
	}
	if !utf8.Valid(f.Data) {
		return nil, problem(at, "is not UTF-8 text")
	}
	if line, wrong := yamlbounds.Check(f.Data); line > 0 {
		at.line, at.column = line, 1
		return nil, problem(at, "%s", wrong)
	}
	file, err := parse(f.Data)
	if err != nil {
		return nil, syntaxProblem(at, err)
	}
	r := &reader{file: f.Name, left: maxNodes, anchors: make(map[string]ast.Node)}
	var out *tree
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if out != nil {
			return nil, problem(r.place(doc.Body.GetToken()), "a second YAML document begins here, expected one")
		}
		var p *Problem
		if out, p = r.read(doc.Body, 0); p != nil {
			return nil, p
		}
	}
	if out == nil || out.kind != isFields {
		return nil, problem(at, "holds no fields, expected a bootstrap or aggregation rules of xds-relay")
	}
	return out, nil
}

// parse reads YAML. The parser panics on some malformed input, which is an error.
func parse(data []byte) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("is not YAML that can be read")
		}
	}()
	return parser.ParseBytes(data, 0)
}

func syntaxProblem(at place, err error) *Problem {
	var syntax yaml.Error
	if errors.As(err, &syntax) && syntax.GetToken() != nil {
		at.line, at.column = syntax.GetToken().Position.Line, syntax.GetToken().Position.Column
		return problem(at, "not valid YAML: %s", syntax.GetMessage())
	}
	message, _, _ := strings.Cut(err.Error(), "\n")
	return problem(at, "%s", message)
}

func (r *reader) place(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{file: r.file}
	}
	return place{r.file, t.Position.Line, max(t.Position.Column, 1)}
}

func (r *reader) read(n ast.Node, depth int) (*tree, *Problem) {
	at := r.place(n.GetToken())
	if r.left--; r.left < 0 {
		return nil, problem(at, "the file has more than %d values, with those that aliases repeat", maxNodes)
	}
	if depth > maxDepth {
		return nil, problem(at, "values are nested more than %d deep", maxDepth)
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		r.anchors[n.Name.GetToken().Value] = n.Value
		return r.read(n.Value, depth+1)
	case *ast.AliasNode:
		target, ok := r.anchors[n.Value.GetToken().Value]
		if !ok {
			return nil, problem(at, "the alias %s has no anchor above it", n.Value.GetToken().Value)
		}
		return r.read(target, depth+1)
	case *ast.TagNode:
		return r.read(n.Value, depth+1)
	case *ast.MappingNode:
		return r.readFields(at, n.Values, depth)
	case *ast.MappingValueNode:
		return r.readFields(at, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		t := &tree{at: at, kind: isList}
		for _, item := range n.Values {
			child, p := r.read(item, depth+1)
			if p != nil {
				return nil, p
			}
			t.items = append(t.items, child)
		}
		return t, nil
	case *ast.NullNode:
		return &tree{at: at}, nil
	case *ast.StringNode:
		return &tree{at: at, kind: isScalar, text: n.Value}, nil
	case *ast.LiteralNode:
		return &tree{at: at, kind: isScalar, text: n.Value.Value}, nil
	case ast.ScalarNode:
		return &tree{at: at, kind: isScalar, text: n.GetToken().Value}, nil
	}
	return nil, problem(at, "is not understood here")
}

func (r *reader) readFields(at place, pairs []*ast.MappingValueNode, depth int) (*tree, *Problem) {
	t := &tree{at: at, kind: isFields}
	if len(pairs) > 0 {
		t.at = r.place(pairs[0].Key.GetToken())
	}
	for _, pair := range pairs {
		keyAt := r.place(pair.Key.GetToken())
		value, p := r.read(pair.Value, depth+1)
		if p != nil {
			return nil, p
		}
		if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
			if value.kind != isFields {
				return nil, problem(keyAt, "<< takes the fields of an alias, got %s", value.kind)
			}
			t.fields = append(t.fields, value.fields...)
			continue
		}
		name := pair.Key.GetToken().Value
		if s, ok := pair.Key.(*ast.StringNode); ok {
			name = s.Value
		}
		t.fields = append(t.fields, field{snake(name), keyAt, value})
	}
	return t, nil
}

// snake writes a name as .proto files do: requestTypeMatch is request_type_match.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) {
			if i > 0 {
				b.WriteByte('_')
			}
			c = unicode.ToLower(c)
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Problem is a mistake in a file, or with Warning something that has no counterpart.
type Problem struct {
	// File, Line and Column, from 1, say where it is; Line is 0 where it is the file
	// as a whole.
	File         string
	Line, Column int
	// Message says what is wrong and what was expected, or what becomes of it.
	Message string
}

// String is the place and the message.
func (p Problem) String() string {
	switch {
	case p.Line > 0:
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	case p.File != "":
		return p.File + ": " + p.Message
	}
	return p.Message
}

func problem(at place, format string, args ...any) *Problem {
	return &Problem{at.file, at.line, at.column, fmt.Sprintf(format, args...)}
}

// Error is all mistakes that were found.
type Error struct {
	Problems []Problem // never empty
}

// Error lists the problems, one in a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
