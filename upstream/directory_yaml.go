package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"xdsrelay/relay/yamlbounds"
)

const (
	maxYAMLDepth  = yamlbounds.MaxDepth // levels of nesting
	maxYAMLVisits = 4 << 20             // nodes; those behind aliases count each time
)

// yamlDoc is the JSON form of a YAML document, one token on each line. It has the position in the
// document for each line: protojson reports the line of an error, which leads back to the document.
type yamlDoc struct {
	json   []byte
	at     []*token.Position
	last   *token.Position // of the previous token
	visits int

	anchors map[string]ast.Node
}

// YAMLToJSON converts one YAML document to JSON. Its aliases are expanded, within bounds. Errors do
// not quote the document.
func YAMLToJSON(b []byte) ([]byte, error) {
	doc, err := yamlToJSON(b)
	if err != nil {
		return nil, err
	}
	return doc.json, nil
}

// yamlToJSON converts one YAML document. Errors with a position have the type *positionError.
func yamlToJSON(b []byte) (doc *yamlDoc, err error) {
	// An edit of a file must not crash the relay. If the parser panics on some input, the file is
	// invalid like any other.
	defer func() {
		if r := recover(); r != nil {
			doc, err = nil, errors.New("the YAML parser failed")
		}
	}()
	if line, problem := yamlbounds.Check(b); line > 0 {
		return nil, &positionError{line: line, column: 1, msg: problem}
	}
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		if y, ok := errors.AsType[yaml.Error](err); ok && y.GetToken() != nil {
			return nil, errorAt(y.GetToken().Position, "%s", kindOf(y.GetMessage()))
		}
		return nil, withoutContent(err)
	}
	doc = &yamlDoc{anchors: make(map[string]ast.Node)}
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.DirectiveType || d.Body.Type() == ast.CommentType:
		case body != nil:
			return nil, errorAt(positionOf(d.Body), "a second document, expected one in a file")
		default:
			body = d.Body
		}
	}
	if body == nil {
		return nil, errors.New("there is no document in the file")
	}
	err = doc.value(body, 0)
	return doc, err
}

// position returns the position in the document of a line of the JSON.
func (d *yamlDoc) position(line int) (yamlLine, column int) {
	i := min(line, len(d.at)) - 1
	if i < 0 || d.at[i] == nil {
		return 1, 1
	}
	return d.at[i].Line, d.at[i].Column
}

// emit writes one token of JSON.
func (d *yamlDoc) emit(n ast.Node, s string) error {
	if p := positionOf(n); p != nil {
		d.last = p
	}
	if len(d.json)+len(s) > maxDirFile {
		return errorAt(d.last, "the document grows beyond %d bytes with its aliases written out", maxDirFile)
	}
	d.json = append(append(d.json, s...), '\n')
	d.at = append(d.at, d.last)
	return nil
}

func (d *yamlDoc) value(n ast.Node, depth int) error {
	if err := d.visit(n, depth); err != nil {
		return err
	}
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return d.mapping(n, depth)
	case *ast.SequenceNode:
		return d.sequence(n, depth)
	case *ast.AnchorNode:
		d.anchors[n.Name.GetToken().Value] = n.Value
		return d.value(n.Value, depth+1)
	case *ast.AliasNode:
		target, err := d.resolve(n)
		if err != nil {
			return err
		}
		return d.value(target, depth+1)
	case *ast.TagNode:
		return d.tagged(n, depth)
	}
	return d.scalar(n)
}

// visit counts visited nodes, which bounds aliases of aliases.
func (d *yamlDoc) visit(n ast.Node, depth int) error {
	d.visits++
	switch {
	case depth > maxYAMLDepth:
		return errorAt(positionOf(n), "nested more than %d levels deep, or an alias that holds itself", maxYAMLDepth)
	case d.visits > maxYAMLVisits:
		return errorAt(positionOf(n), "more than %d values with aliases written out", maxYAMLVisits)
	}
	return nil
}

func (d *yamlDoc) resolve(n *ast.AliasNode) (ast.Node, error) {
	name := n.Value.GetToken().Value
	target, ok := d.anchors[name]
	if !ok {
		return nil, errorAt(positionOf(n), "an alias without an anchor before it")
	}
	return target, nil
}

func (d *yamlDoc) scalar(n ast.Node) error {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return d.emit(n, "null")
	case *ast.BoolNode:
		return d.emit(n, strconv.FormatBool(n.Value))
	case *ast.IntegerNode:
		return d.emit(n, fmt.Sprint(n.Value))
	case *ast.FloatNode:
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			return errorAt(positionOf(n), "a number that is out of range")
		}
		return d.emit(n, strconv.FormatFloat(n.Value, 'g', -1, 64))
	case *ast.InfinityNode:
		if n.Value < 0 {
			return d.emit(n, `"-Infinity"`)
		}
		return d.emit(n, `"Infinity"`)
	case *ast.NanNode:
		return d.emit(n, `"NaN"`)
	case *ast.StringNode:
		return d.emit(n, quote(n.Value))
	case *ast.LiteralNode:
		return d.emit(n, quote(n.Value.Value))
	}
	return errorAt(positionOf(n), "a %s, expected a mapping, a sequence or a scalar", n.Type())
}

// tagged applies the only tag that changes a value here: !!str.
func (d *yamlDoc) tagged(n *ast.TagNode, depth int) error {
	if scalar, ok := n.Value.(ast.ScalarNode); ok && n.Start.Value == "!!str" {
		if scalar.Type() != ast.StringType && scalar.Type() != ast.LiteralType {
			return d.emit(n, quote(scalar.GetToken().Value))
		}
	}
	if n.Value == nil {
		return d.emit(n, "null")
	}
	return d.value(n.Value, depth+1)
}

func (d *yamlDoc) sequence(n *ast.SequenceNode, depth int) error {
	if err := d.emit(n, "["); err != nil {
		return err
	}
	for i, v := range n.Values {
		if i > 0 {
			if err := d.emit(nil, ","); err != nil {
				return err
			}
		}
		if err := d.value(v, depth+1); err != nil {
			return err
		}
	}
	return d.emit(nil, "]")
}

func errorAt(p *token.Position, format string, args ...any) error {
	if p == nil {
		return fmt.Errorf(format, args...)
	}
	return &positionError{line: p.Line, column: p.Column, msg: fmt.Sprintf(format, args...)}
}

func positionOf(n ast.Node) *token.Position {
	if n == nil || n.GetToken() == nil {
		return nil
	}
	return n.GetToken().Position
}

func quote(s string) string {
	b, _ := json.Marshal(s) // marshalling a string cannot fail
	return string(b)
}
