package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"xdsrelay/relay/yamlbounds"
)

// maxFileSize bounds a configuration file, in bytes.
const maxFileSize = 1 << 20

// place is where a value was set.
type place struct {
	source       string // file name, environment variable or flag
	line, column int    // 0 outside of files
	width        int    // characters of the first line
	block        bool   // a text of several lines, which begins below
}

// decoder turns a file's syntax tree into a Config. The library's own decoder
// would stop at the first mistake, take "5" for 5, and forget where values were.
type decoder struct {
	name     string
	lines    []string
	places   map[string]place // by path
	problems []Problem

	withoutOrigin bool // no origin is needed

	unread bool // the file could not be read as YAML, so all fields have their defaults
}

// decodeFile sets in cfg what the file says.
func decodeFile(name string, data []byte, cfg *Config) *decoder {
	d := &decoder{name: name, places: make(map[string]place), unread: true}
	if len(data) > maxFileSize {
		d.problems = append(d.problems, Problem{Source: name, Message: fmt.Sprintf("has %d bytes, expected at most %s", len(data), Size(maxFileSize))})
		return d
	}
	data = plainBreaks(data)
	d.lines = strings.Split(string(data), "\n")
	if line := invalidLine(d.lines); line > 0 {
		d.fail(place{source: name, line: line, column: 1}, "", "is not UTF-8 text")
		return d
	}
	if line, problem := yamlbounds.Check(data); line > 0 {
		d.fail(place{source: name, line: line, column: 1}, "", "%s", problem)
		return d
	}
	file, err := parse(data)
	if err != nil {
		d.failSyntax(err)
		return d
	}
	d.unread = false
	seen := false
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.DirectiveType:
		case seen:
			d.fail(d.placeOf(doc.Body), "", "a second YAML document begins here, expected one")
		default:
			seen = true
			d.decode(doc.Body, reflect.ValueOf(cfg).Elem(), "")
		}
	}
	return d
}

// plainBreaks makes every line break a newline. YAML takes a lone carriage return
// for one, too, and whoever counts lines has to agree with the parser.
func plainBreaks(data []byte) []byte {
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
}

// parse reads YAML. The parser panics on some malformed input; that is an error
// like any other here.
func parse(data []byte) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("is not YAML that can be read")
		}
	}()
	return parser.ParseBytes(data, 0)
}

// invalidLine is the number of the first line that is not UTF-8; 0 if all are.
func invalidLine(lines []string) int {
	for i, line := range lines {
		if !utf8.ValidString(line) {
			return i + 1
		}
	}
	return 0
}

func (d *decoder) fail(at place, field, format string, args ...any) {
	p := Problem{Source: at.source, Field: field, Message: fmt.Sprintf(format, args...)}
	if at.line > 0 {
		p.Line, p.Column, p.width = at.line, at.column, at.width
		if at.line <= len(d.lines) {
			p.text = d.lines[at.line-1]
		}
	}
	d.problems = append(d.problems, p)
}

func (d *decoder) failSyntax(err error) {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		message, _, _ := strings.Cut(err.Error(), "\n")
		d.fail(place{source: d.name}, "", "%s", message)
		return
	}
	d.fail(d.tokenPlace(syntax.GetToken()), "", "%s", yamlMessage(syntax.GetMessage()))
}

// yamlMessage adds what was expected to those messages of the parser that most
// users will see.
func yamlMessage(message string) string {
	message = "not valid YAML: " + strings.ReplaceAll(message, "character '\t'", "a tab")
	switch {
	case strings.Contains(message, "tab"):
		return message + "; expected spaces"
	case strings.Contains(message, "mapping value is not allowed"):
		return message + "; expected the next line to be indented like this field, or quotes around a text with a colon"
	}
	return message
}

func (d *decoder) tokenPlace(t *token.Token) place {
	width := utf8.RuneCountInString(strings.TrimSpace(t.Origin))
	if strings.Contains(strings.TrimSpace(t.Origin), "\n") {
		width = 1
	}
	return place{source: d.name, line: t.Position.Line, column: max(t.Position.Column, 1), width: width}
}

func (d *decoder) placeOf(n ast.Node) place {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return d.tokenPlace(n.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return d.tokenPlace(n.Key.GetToken())
	case *ast.LiteralNode:
		at := d.tokenPlace(n.GetToken())
		at.block = true
		return at
	}
	return d.tokenPlace(n.GetToken())
}

// decode sets v, which is the field at path, to what n says.
func (d *decoder) decode(n ast.Node, v reflect.Value, path string) {
	t := v.Type()
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.fail(d.placeOf(n), path, "anchors, aliases and tags are not taken here, expected %s", expectation(t))
		return
	case *ast.NullNode:
		if t.Kind() == reflect.Struct && path != "" {
			return // a section whose fields are all commented out
		}
		d.fail(d.placeOf(n), path, "has no value, expected %s", expectation(t))
		return
	}
	if t.Kind() != reflect.Struct {
		d.places[path] = d.placeOf(n)
	}
	switch {
	case t.Kind() == reflect.Struct:
		d.decodeStruct(n, v, path)
	case t.Kind() == reflect.Slice:
		d.decodeList(n, v, path)
	case t.Kind() == reflect.Map:
		d.decodeMap(n, v, path)
	default:
		d.decodeScalar(n, v, path)
	}
}

func (d *decoder) decodeStruct(n ast.Node, v reflect.Value, path string) {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		d.fail(d.placeOf(n), path, "got %s, expected %s", describe(n), expectation(v.Type()))
		return
	}
	fields, known := fieldsOf(v.Type()), fieldNames(v.Type())
	for _, pair := range pairs {
		at, name := d.tokenPlace(pair.Key.GetToken()), pair.Key.GetToken().Value
		if s, ok := pair.Key.(*ast.StringNode); ok {
			name = s.Value
		}
		i := indexOf(known, name)
		if i < 0 {
			hint := didYouMean(name, known)
			if hint == "" {
				hint = ", expected " + list(known, "or")
			}
			d.fail(at, join(path, name), "unknown field%s", hint)
			continue
		}
		inner := join(path, name)
		d.places[inner] = at
		d.decode(pair.Value, v.FieldByIndex(fields[i].Index), inner)
	}
}

// newItem is an item of a list before it is decoded.
func newItem(t reflect.Type) reflect.Value {
	switch t {
	case reflect.TypeFor[OtherOrigin]():
		return reflect.ValueOf(OtherOrigin{Origin: DefaultOrigin()})
	case reflect.TypeFor[OtherListener]():
		return reflect.ValueOf(OtherListener{Listener: DefaultListener()})
	}
	return reflect.Zero(t)
}

func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

func (d *decoder) decodeList(n ast.Node, v reflect.Value, path string) {
	if decodeWord(n, v) {
		return
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(d.placeOf(n), path, "got %s, expected %s", describe(n), expectation(v.Type()))
		return
	}
	v.SetZero() // replaces the default
	for i, item := range seq.Values {
		v.Set(reflect.Append(v, newItem(v.Type().Elem())))
		inner := path + "[" + strconv.Itoa(i) + "]"
		d.places[inner] = d.placeOf(item)
		d.decode(item, v.Index(i), inner)
	}
}

// decodeMap takes texts by name.
func (d *decoder) decodeMap(n ast.Node, v reflect.Value, path string) {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		d.fail(d.placeOf(n), path, "got %s, expected %s", describe(n), expectation(v.Type()))
		return
	}
	v.SetZero() // replaces the default
	for _, pair := range pairs {
		name := pair.Key.GetToken().Value
		if s, ok := pair.Key.(*ast.StringNode); ok {
			name = s.Value
		}
		inner := join(path, name)
		d.places[inner] = d.tokenPlace(pair.Key.GetToken())
		item := reflect.New(v.Type().Elem()).Elem()
		d.decode(pair.Value, item, inner)
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(name), item)
	}
}

func (d *decoder) decodeScalar(n ast.Node, v reflect.Value, path string) {
	t := v.Type()
	text, ok := "", false
	switch n := n.(type) {
	case *ast.StringNode:
		text, ok = n.Value, t.Kind() == reflect.String || isText(t)
	case *ast.LiteralNode:
		text, ok = n.Value.Value, t.Kind() == reflect.String && !isText(t)
	case *ast.IntegerNode:
		text = n.GetToken().Value
		ok = t.Kind() == reflect.Int || t.Kind() == reflect.Float64 || isText(t)
	case *ast.FloatNode:
		text, ok = n.GetToken().Value, t.Kind() == reflect.Float64 || t == reflect.TypeFor[TLSVersion]()
	case *ast.BoolNode:
		text, ok = strconv.FormatBool(n.Value), t.Kind() == reflect.Bool || t == reflect.TypeFor[Compression]()
	}
	if !ok {
		hint := ""
		if t.Kind() == reflect.String && !isText(t) {
			hint = "; put it in quotes if it is meant as text"
		}
		d.fail(d.placeOf(n), path, "got %s, expected %s%s", describe(n), expectation(t), hint)
		return
	}
	if err := setText(v, text); err != nil {
		d.fail(d.placeOf(n), path, "got %s, %s", describe(n), err)
	}
}

// describe says what a node is, for "got …".
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "fields"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return strconv.Quote(shorten(n.Value))
	case *ast.LiteralNode:
		return "a text of several lines"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + shorten(n.GetToken().Value)
	case *ast.BoolNode:
		return strconv.FormatBool(n.Value)
	}
	return "something else"
}

// shorten bounds what a message quotes.
func shorten(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
