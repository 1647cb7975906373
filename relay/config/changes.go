package config

import (
	"reflect"
	"slices"
)

// Changes lists the fields in which two configurations differ, by path and in the order
// of the file: those that take effect while a node runs, and those that need a restart. A
// list counts as one field.
func Changes(old, next *Config) (live, restart []string) {
	var walk func(a, b reflect.Value, path string, mayChange bool)
	walk = func(a, b reflect.Value, path string, mayChange bool) {
		if a.Kind() == reflect.Struct && !isText(a.Type()) {
			for _, f := range fieldsOf(a.Type()) {
				walk(a.FieldByIndex(f.Index), b.FieldByIndex(f.Index), join(path, yamlName(f)), mayChange || isLive(f))
			}
			return
		}
		switch {
		case reflect.DeepEqual(a.Interface(), b.Interface()):
		case mayChange:
			live = append(live, path)
		default:
			restart = append(restart, path)
		}
	}
	walk(reflect.ValueOf(old).Elem(), reflect.ValueOf(next).Elem(), "", false)
	return slices.Clip(live), slices.Clip(restart)
}

// Running is the configuration of a node that started with first, once those fields of
// next apply that need no restart. Lists may be shared.
func Running(first, next *Config) *Config {
	out := *first
	var walk func(to, from reflect.Value, mayChange bool)
	walk = func(to, from reflect.Value, mayChange bool) {
		if to.Kind() == reflect.Struct && !isText(to.Type()) {
			for _, f := range fieldsOf(to.Type()) {
				walk(to.FieldByIndex(f.Index), from.FieldByIndex(f.Index), mayChange || isLive(f))
			}
		} else if mayChange {
			to.Set(from)
		}
	}
	walk(reflect.ValueOf(&out).Elem(), reflect.ValueOf(next).Elem(), false)
	return &out
}

// isLive reports whether a field, or a section with all that is in it, may change while
// a node runs: its tag says so.
func isLive(f reflect.StructField) bool { return f.Tag.Get("change") == "live" }
