package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/rollout"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	stringsType  = reflect.TypeFor[[]string]()
)

// leaf is a field with one value, or a list of texts: what an environment variable or a
// flag can set.
type leaf struct {
	path  string // like listener.address
	value reflect.Value
}

// env is the name of the environment variable for the field.
func (l leaf) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(l.path, ".", "_"))
}

// leaves lists the fields of cfg, settable, in the order of the structs.
func leaves(cfg *Config) (out []leaf) {
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch {
		case v.Kind() == reflect.Struct:
			for _, f := range fieldsOf(v.Type()) {
				walk(v.FieldByIndex(f.Index), join(path, yamlName(f)))
			}
		case v.Kind() != reflect.Slice || v.Type() == stringsType:
			out = append(out, leaf{path, v})
		}
	}
	walk(reflect.ValueOf(cfg).Elem(), "")
	return out
}

// yamlName is a field's name in the file.
func yamlName(f reflect.StructField) string { return f.Tag.Get("yaml") }

// join extends a path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// isText reports whether the values of a type are written as text with a form of its own.
func isText(t reflect.Type) bool {
	return t == durationType || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// setText sets a value from text, as in environment variables and flags. The error says
// what was expected.
func setText(v reflect.Value, text string) error {
	if to, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return to.UnmarshalText([]byte(text))
	}
	switch {
	case v.Type() == durationType:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("expected a duration like 500ms, 30s or 1m30s")
		}
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		switch text {
		case "true", "false":
			v.SetBool(text == "true")
		default:
			return fmt.Errorf("expected true or false")
		}
	case v.Kind() == reflect.Int:
		// 0x10, 010 and the like mean different numbers to different readers.
		digits := strings.ReplaceAll(text, "_", "")
		n, err := strconv.Atoi(digits)
		if err != nil || strconv.Itoa(n) != digits {
			return fmt.Errorf("expected a whole number like 100_000")
		}
		v.SetInt(int64(n))
	case v.Kind() == reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			return fmt.Errorf("expected a number like 1.5")
		}
		v.SetFloat(n)
	case v.Type() == stringsType:
		v.SetZero()
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				v.Set(reflect.Append(v, reflect.ValueOf(item)))
			}
		}
	default:
		return fmt.Errorf("cannot be set in this way")
	}
	return nil
}

// expectation describes the values of a type, for "expected …".
func expectation(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration like 30s"
	case t == reflect.TypeFor[Size]():
		return "a size like 64MiB"
	case t == reflect.TypeFor[rollout.Share]():
		return "a percentage like 1%"
	case t.Kind() == reflect.Struct:
		return "fields (" + list(fieldNames(t), "and") + ")"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map:
		return "names with a text each, like example.org: /etc/bundle.json"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	case isText(t):
		v := reflect.New(t)
		return strings.TrimPrefix(v.Interface().(encoding.TextUnmarshaler).UnmarshalText(nil).Error(), "expected ")
	}
	return "a text"
}

// fieldsOf lists the fields of a struct; those of an embedded one are its own.
func fieldsOf(t reflect.Type) (fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous {
			fields = append(fields, f)
		}
	}
	return fields
}

// fieldNames lists the fields of a struct as the file calls them.
func fieldNames(t reflect.Type) (names []string) {
	for _, f := range fieldsOf(t) {
		names = append(names, yamlName(f))
	}
	return names
}
