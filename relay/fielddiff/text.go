package fielddiff

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The longest texts, in bytes.
const (
	maxText = 300
	maxPath = 500
	maxKey  = 100
)

// text returns how a value is shown.
func text(f protoreflect.FieldDescriptor, v protoreflect.Value) func() string {
	return func() string {
		switch f.Kind() {
		case protoreflect.MessageKind, protoreflect.GroupKind:
			return messageText(v.Message())
		case protoreflect.EnumKind:
			if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
				return string(e.Name())
			}
			return v.String()
		case protoreflect.StringKind:
			return shorten(jsonText(shorten(v.String(), maxText)), maxText)
		case protoreflect.BytesKind:
			b := v.Bytes()
			return shorten(jsonText(base64.StdEncoding.EncodeToString(b[:min(len(b), maxText)])), maxText)
		}
		return v.String()
	}
}

// messageText is a message as JSON on one line.
func messageText(m protoreflect.Message) string {
	b, err := protojson.MarshalOptions{AllowPartial: true}.Marshal(m.Interface())
	if err != nil {
		return "(a message that JSON cannot hold)"
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil { // protojson varies its spaces
		return "(a message that JSON cannot hold)"
	}
	return shorten(out.String(), maxText)
}

func jsonText(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text always can be
	return strings.TrimSuffix(b.String(), "\n")
}

// shorten cuts a text to most bytes.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for s = s[:most]; s != "" && !utf8.RuneStart(s[len(s)-1]); {
		s = s[:len(s)-1]
	}
	if r, size := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && size == 1 {
		s = s[:len(s)-1]
	}
	return s + "…"
}
