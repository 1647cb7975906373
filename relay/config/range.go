package config

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
)

// checkRanges checks the values in v, which is at path, by the tags range of their fields.
// Such a tag is like 1KiB..1GiB, or 100ms.. without an upper bound. In 0s|1m.. the value
// before the bar is allowed, too.
func (d *decoder) checkRanges(v reflect.Value, path string) {
	switch t := v.Type(); {
	case d.withoutUpstream && (path == "upstream" || path == "upstreams"):
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			d.checkRanges(v.Index(i), path+"["+strconv.Itoa(i)+"]")
		}
	case t.Kind() == reflect.Struct && !isText(t):
		for _, f := range fieldsOf(t) {
			field, at := v.FieldByIndex(f.Index), join(path, yamlName(f))
			if expected := outside(field, f.Tag.Get("range")); expected != "" {
				d.wrong(at, "is %v, expected %s", field.Interface(), expected)
			}
			d.checkRanges(field, at)
		}
	}
}

// outside says what was expected of a value that is outside of a range; empty if it is inside.
func outside(v reflect.Value, span string) string {
	if span == "" {
		return ""
	}
	other, least, most := partsOf(span)
	or := other != ""
	if or && compareTo(v, other) == 0 || compareTo(v, least) >= 0 && (most == "" || compareTo(v, most) <= 0) {
		return ""
	}
	expected := "at least " + least
	if most != "" {
		expected = least + " to " + most
		switch {
		case v.Type() == reflect.TypeFor[Size]():
			expected = "a size from " + expected
		case v.CanFloat():
			expected = "a number from " + expected
		}
	}
	if or {
		return other + " or " + expected
	}
	return expected
}

// partsOf returns the value before the bar of a range and its bounds, each empty if there is none.
func partsOf(span string) (other, least, most string) {
	if before, after, ok := strings.Cut(span, "|"); ok {
		other, span = before, after
	}
	least, most, _ = strings.Cut(span, "..")
	return other, least, most
}

// compareTo compares a value with a text of its type, as in the file. A test reads all such texts.
func compareTo(v reflect.Value, text string) int {
	bound := reflect.New(v.Type()).Elem()
	if err := setText(bound, text); err != nil {
		panic(err)
	}
	if v.CanFloat() {
		return cmp.Compare(v.Float(), bound.Float())
	}
	return cmp.Compare(v.Int(), bound.Int())
}
