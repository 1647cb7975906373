package config

import (
	"bytes"
	_ "embed"
	"encoding"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"
	"time"

	"xdsrelay/relay/rollout"
)

// commentsJSON are the comments of all fields, by "package.Struct.Field", as
// `go test ./relay/config -update` finds them in the code; a test holds that they are
// up to date.
//
//go:embed comments.json
var commentsJSON []byte

// comments reads them. Those of a program do not change.
func comments() (c map[string]string) {
	if err := json.Unmarshal(commentsJSON, &c); err != nil {
		panic(err) // a test reads them, too
	}
	return c
}

// commentOf is the comment of a field of t as one line.
func commentOf(c map[string]string, t reflect.Type, f reflect.StructField) string {
	return strings.Join(strings.Fields(c[commentKey(t, f)]), " ")
}

// commentKey is the key of a field's comment. Structs of two packages may have the same
// name, so the package is a part of it. f may be a field of a struct embedded in t.
func commentKey(t reflect.Type, f reflect.StructField) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return path.Base(t.PkgPath()) + "." + t.Name() + "." + f.Name
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Schema is the JSON Schema of a configuration file, for editors and for checks before
// a file is used. What several fields say together only [Load] checks.
func Schema() []byte {
	c := comments()
	root := append(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "The configuration of xdsrelay"},
	}, schemaOf(c, reflect.ValueOf(*Default()))...)
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // there is nothing in it that JSON cannot hold
	}
	return append(b, '\n')
}

// schemaOf describes what a field takes. v is its default, or the zero value of an item
// of a list.
func schemaOf(c map[string]string, v reflect.Value) object {
	t := v.Type()
	switch {
	case t == durationType:
		return object{{"type", "string"}, {"pattern", `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}}
	case t == reflect.TypeFor[Size]():
		return object{{"type", []string{"string", "integer"}}, {"pattern", `^([0-9]+ ?(B|KiB|MiB|GiB)|0)$`}, {"maximum", 0}}
	case t == reflect.TypeFor[FileMode]():
		return object{{"type", "string"}, {"pattern", `^[0-7]{1,4}$`}}
	case t == reflect.TypeFor[rollout.Share]():
		return object{{"type", "string"}, {"pattern", `^[0-9]+(\.[0-9]+)? ?%$`}}
	case t == reflect.TypeFor[RolloutMode]():
		return object{{"enum", []any{rollout.Automatic, rollout.Manual, rollout.Observe, rollout.Off, false}}}
	case t == reflect.TypeFor[Bundles]():
		return object{{"type", "object"}, {"additionalProperties", object{{"type", "string"}}}}
	case isText(t) && t.Kind() == reflect.String:
		return object{{"type", "string"}, {"enum", choices(t)}}
	}
	switch t.Kind() {
	case reflect.Struct:
		var properties object
		for _, f := range fieldsOf(t) {
			inner := v.FieldByIndex(f.Index)
			p := append(object{{"description", commentOf(c, t, f)}}, schemaOf(c, inner)...)
			p = append(p, boundsOf(inner.Kind(), f.Tag.Get("range"))...)
			if text, ok := defaultText(inner); ok {
				p = append(p, member{"default", text})
			}
			properties = append(properties, member{yamlName(f), p})
		}
		return object{{"type", []string{"object", "null"}}, {"additionalProperties", false}, {"properties", properties}}
	case reflect.Slice:
		return object{{"type", "array"}, {"items", schemaOf(c, newItem(t.Elem()))}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Int:
		return object{{"type", "integer"}}
	case reflect.Float64:
		return object{{"type", "number"}}
	}
	return object{{"type", "string"}}
}

// boundsOf describes the range of a number. Durations and sizes are texts, for which JSON Schema has
// no ranges.
func boundsOf(kind reflect.Kind, span string) object {
	if span == "" || kind != reflect.Int && kind != reflect.Float64 {
		return nil
	}
	other, least, most := partsOf(span)
	bounds := object{{"minimum", json.Number(least)}}
	if most != "" {
		bounds = append(bounds, member{"maximum", json.Number(most)})
	}
	if other != "" {
		return object{{"anyOf", []object{{{"const", json.Number(other)}}, bounds}}}
	}
	return bounds
}

// choices are the words that a type takes.
func choices(t reflect.Type) (words []string) {
	into := reflect.New(t).Interface().(encoding.TextUnmarshaler)
	if into.UnmarshalText(nil) == nil {
		words = append(words, "")
	}
	text := strings.TrimPrefix(into.UnmarshalText([]byte("\x00")).Error(), "expected ")
	text, _, _ = strings.Cut(text, ";")
	return append(words, strings.Split(strings.ReplaceAll(text, " or ", ", "), ", ")...)
}

// defaultText is a field's default as the file has it; ok is false for sections and
// lists of them.
func defaultText(v reflect.Value) (text any, ok bool) {
	switch x := v.Interface().(type) {
	case time.Duration:
		return durationText(x), true
	case rollout.Share:
		return x.String(), x != 0 // a share of nothing is no default
	case fmt.Stringer:
		return x.String(), true
	case []string:
		return append([]string{}, x...), true
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map:
		return nil, false
	}
	return v.Interface(), true
}

// durationText leaves out what a duration has none of.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
