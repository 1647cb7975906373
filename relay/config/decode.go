package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"xdsrelay/relay/yamlpos"
)

// maxFileSize bounds a configuration file, in bytes.
const maxFileSize = 1 << 20

// place is where a value was set. Its position is 0 outside of files.
type place struct {
	yamlpos.At

	source string // file name, environment variable or flag
	block  bool   // a text of several lines, which begins below
}

// decoder turns the values of a file into a Config. The decoder of the YAML library would
// stop at the first mistake, accept "5" as 5, and lose the positions of values.
type decoder struct {
	name     string
	lines    []string
	places   map[string]place // by path
	problems []Problem

	withoutUpstream bool // no upstream is needed
	withoutFiles    bool // files that fields name need not exist

	overrides map[string]Override // by path

	unread bool // the file could not be read as YAML, so all fields have their defaults
}

// decodeFile sets the fields of cfg that the file sets.
func decodeFile(name string, data []byte, cfg *Config) *decoder {
	d := &decoder{name: name, places: make(map[string]place), lines: yamlpos.Lines(data)}
	root, err := yamlpos.Parse(data, yamlpos.Limits{Bytes: maxFileSize, Values: maxFileSize, NoReferences: true})
	if mistake, ok := errors.AsType[*yamlpos.Error](err); ok {
		d.fail(place{source: name, At: mistake.At}, "", "%s", mistake.Message)
		d.unread = root == nil
	}
	if root != nil {
		d.decode(root, reflect.ValueOf(cfg).Elem(), "")
	}
	return d
}

func (d *decoder) fail(at place, field, format string, args ...any) {
	p := Problem{Source: at.source, Field: field, Message: fmt.Sprintf(format, args...)}
	if at.Line > 0 {
		p.Line, p.Column, p.width = at.Line, at.Column, at.Width
		if at.Line <= len(d.lines) {
			p.text = d.lines[at.Line-1]
		}
	}
	d.problems = append(d.problems, p)
}

func (d *decoder) placeOf(n *yamlpos.Value) place {
	return place{source: d.name, At: n.At, block: n.Kind == yamlpos.Block}
}

// decode sets v, the field at path, to the value n.
func (d *decoder) decode(n *yamlpos.Value, v reflect.Value, path string) {
	t := v.Type()
	switch n.Kind {
	case yamlpos.Reference:
		d.fail(d.placeOf(n), path, "anchors, aliases and tags are not supported, expected %s", expectation(t))
		return
	case yamlpos.Null:
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

func (d *decoder) decodeStruct(n *yamlpos.Value, v reflect.Value, path string) {
	if n.Kind != yamlpos.Fields {
		d.fail(d.placeOf(n), path, "got %s, expected %s", describe(n), expectation(v.Type()))
		return
	}
	fields, known := fieldsOf(v.Type()), fieldNames(v.Type())
	for _, f := range n.Fields {
		at := place{source: d.name, At: f.At}
		i := slices.Index(known, f.Name)
		if i < 0 {
			hint := didYouMean(f.Name, known)
			if hint == "" {
				hint = ", expected " + list(known, "or")
			}
			d.fail(at, join(path, f.Name), "unknown field%s", hint)
			continue
		}
		inner := join(path, f.Name)
		d.places[inner] = at
		d.decode(f.Value, v.FieldByIndex(fields[i].Index), inner)
	}
}

// newItem is an item of a list before it is decoded.
func newItem(t reflect.Type) reflect.Value {
	switch t {
	case reflect.TypeFor[NamedUpstream]():
		return reflect.ValueOf(NamedUpstream{Upstream: DefaultUpstream()})
	case reflect.TypeFor[NamedListener]():
		return reflect.ValueOf(NamedListener{Listener: DefaultListener()})
	case reflect.TypeFor[RolloutPolicy]():
		return reflect.ValueOf(DefaultRolloutPolicy())
	case reflect.TypeFor[RolloutStep]():
		return reflect.ValueOf(RolloutStep{Bake: 5 * time.Minute})
	case reflect.TypeFor[RolloutCheck]():
		return reflect.ValueOf(defaultCheck())
	}
	return reflect.Zero(t)
}

func (d *decoder) decodeList(n *yamlpos.Value, v reflect.Value, path string) {
	if n.Kind != yamlpos.List {
		d.fail(d.placeOf(n), path, "got %s, expected %s", describe(n), expectation(v.Type()))
		return
	}
	v.SetZero() // replaces the default
	for i, item := range n.Items {
		v.Set(reflect.Append(v, newItem(v.Type().Elem())))
		inner := path + "[" + strconv.Itoa(i) + "]"
		d.places[inner] = d.placeOf(item)
		d.decode(item, v.Index(i), inner)
	}
}

// decodeMap decodes texts by name.
func (d *decoder) decodeMap(n *yamlpos.Value, v reflect.Value, path string) {
	if n.Kind != yamlpos.Fields {
		d.fail(d.placeOf(n), path, "got %s, expected %s", describe(n), expectation(v.Type()))
		return
	}
	v.SetZero() // replaces the default
	for _, f := range n.Fields {
		inner := join(path, f.Name)
		d.places[inner] = place{source: d.name, At: f.At}
		item := reflect.New(v.Type().Elem()).Elem()
		d.decode(f.Value, item, inner)
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(f.Name), item)
	}
}

func (d *decoder) decodeScalar(n *yamlpos.Value, v reflect.Value, path string) {
	t := v.Type()
	ok := false
	switch n.Kind {
	case yamlpos.Text:
		ok = t.Kind() == reflect.String || isText(t)
	case yamlpos.Block:
		ok = t.Kind() == reflect.String && !isText(t)
	case yamlpos.Int:
		// 0660 without quotes is 432 to some writers of YAML, such as Helm.
		ok = t.Kind() == reflect.Int || t.Kind() == reflect.Float64 || isText(t) && t != reflect.TypeFor[FileMode]()
	case yamlpos.Float:
		ok = t.Kind() == reflect.Float64 || t == reflect.TypeFor[TLSVersion]()
	case yamlpos.Bool:
		// A writer of YAML 1.1, such as Helm, turns off into false.
		ok = t.Kind() == reflect.Bool || t == reflect.TypeFor[RolloutMode]() && n.Text == "false"
	}
	if !ok {
		hint := ""
		if t.Kind() == reflect.String && !isText(t) {
			hint = "; put it in quotes if it is meant as text"
		}
		d.fail(d.placeOf(n), path, "got %s, expected %s%s", describe(n), expectation(t), hint)
		return
	}
	if err := setText(v, n.Text); err != nil {
		d.fail(d.placeOf(n), path, "got %s, %s", describe(n), err)
	}
}

// describe names a value, for "got …".
func describe(n *yamlpos.Value) string {
	switch n.Kind {
	case yamlpos.Text:
		return strconv.Quote(shorten(n.Text))
	case yamlpos.Block:
		return "a text of several lines"
	case yamlpos.Int, yamlpos.Float:
		return "the number " + shorten(n.Text)
	case yamlpos.Bool:
		return n.Text
	}
	return n.Kind.String()
}

// shorten bounds what a message quotes.
func shorten(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
