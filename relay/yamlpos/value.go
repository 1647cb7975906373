package yamlpos

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// At is a position in a file. Line and Column count characters from 1; 0 means the file as a
// whole. Width is the number of characters there. A value that is missing is where it would be: up to
// two characters behind the end of a line. The width is as the parser says, and may exceed the line.
type At struct{ Line, Column, Width int }

// Kind is what a value is.
type Kind uint8

// The kinds of values.
const (
	Null      Kind = iota
	Bool           // true or false
	Int            // a whole number
	Float          // another number
	Text           // a text of one line
	Block          // a text of several lines, which begins below its position
	List           // items
	Fields         // names with values
	Reference      // an anchor, an alias or a tag, where Limits.NoReferences is set
)

// Scalar reports whether a value is a single one, and not missing.
func (k Kind) Scalar() bool { return k >= Bool && k <= Block }

// String describes the kind in a message.
func (k Kind) String() string {
	switch {
	case k.Scalar():
		return "a single value"
	case k == List:
		return "a list"
	case k == Fields:
		return "fields"
	case k == Reference:
		return "an anchor, an alias or a tag"
	}
	return "nothing"
}

// Value is a value of a file. Aliases share the value of their anchor, so it must not be changed.
type Value struct {
	At     At // of fields: the first name
	Kind   Kind
	Text   string // of a scalar: a text itself, anything else as in the file
	Items  []*Value
	Fields []Field // with those that << merges in; names are unique

	values, depth int // values in it and levels below it, with what aliases repeat
}

// Field is one of the fields of a value.
type Field struct {
	Name  string
	At    At
	Value *Value
}

// Error is a mistake at a position of a file.
type Error struct {
	At
	Message string // what is wrong and what was expected
	Quotes  bool   // the message may quote the file
}

// Error gives the position and the message.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

func fail(at At, format string, args ...any) *Error {
	return &Error{At: at, Message: fmt.Sprintf(format, args...)}
}

// atNode returns the position of a node, or a whole file for none.
func atNode(n ast.Node) At {
	switch n := n.(type) {
	case nil:
		return At{}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return atToken(n.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return atToken(n.Key.GetToken())
	}
	return atToken(n.GetToken())
}

func atToken(t *token.Token) At {
	if t == nil || t.Position == nil {
		return At{}
	}
	text := strings.TrimSpace(t.Origin)
	width := 1
	if !strings.Contains(text, "\n") {
		width = utf8.RuneCountInString(text)
	}
	return At{t.Position.Line, max(t.Position.Column, 1), width}
}
