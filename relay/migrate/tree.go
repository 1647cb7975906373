package migrate

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"xdsrelay/relay/yamlpos"
)

// limits bound a file. A rule nested deeper would result in an expression that the relay rejects.
var limits = yamlpos.Limits{Bytes: 1 << 20, Values: 100_000, Depth: 64}

// place is a position in a file; the zero value means none.
type place struct {
	file string
	yamlpos.At
}

// tree is a YAML value whose parts have their places. Names of fields are in the form
// of .proto files, however the file has them: both are allowed there.
type tree struct {
	at     place
	kind   yamlpos.Kind
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
		if f.name == name && f.value.kind != yamlpos.Null {
			return f.value
		}
	}
	return nil
}

// readTree reads a file.
func readTree(f File) (*tree, *Problem) {
	root, err := yamlpos.Parse(f.Data, limits)
	if mistake, ok := errors.AsType[*yamlpos.Error](err); ok {
		return nil, problem(place{f.Name, mistake.At}, "%s", mistake.Message)
	}
	if root == nil || root.Kind != yamlpos.Fields {
		return nil, problem(place{file: f.Name}, "holds no fields, expected a bootstrap or aggregation rules of xds-relay")
	}
	return treeOf(f.Name, root), nil
}

func treeOf(file string, v *yamlpos.Value) *tree {
	t := &tree{at: place{file, v.At}, kind: v.Kind, text: v.Text}
	for _, item := range v.Items {
		t.items = append(t.items, treeOf(file, item))
	}
	for _, f := range v.Fields {
		t.fields = append(t.fields, field{snake(f.Name), place{file, f.At}, treeOf(file, f.Value)})
	}
	return t
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
	return &Problem{at.file, at.Line, at.Column, fmt.Sprintf(format, args...)}
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
