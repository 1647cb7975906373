package redact

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// opaque are the messages that extensions are configured with whose names are known to the
// extension alone. In doubt all of their texts are secret. They are known as such where an
// Any holds them; elsewhere the field that holds them has a name.
var opaque = map[protoreflect.FullName]bool{
	"google.protobuf.ListValue": true,
	structName:                  true,
	valueName:                   true,
	"xds.type.v3.TypedStruct":   true,
	"udpa.type.v1.TypedStruct":  true,
}

// isWrapper reports whether a message is one text that has not even a name.
func isWrapper(name protoreflect.FullName) bool {
	return name == "google.protobuf.StringValue" || name == "google.protobuf.BytesValue"
}

// hideTexts hides the texts in an opaque message. The rest has been searched by name.
func hideTexts(m protoreflect.Message, depth int) (changed bool) {
	if depth > maxDepth {
		return empty(m)
	}
	if text := m.Descriptor().Fields().ByName("string_value"); m.Descriptor().FullName() == valueName && m.Has(text) {
		m.Set(text, protoreflect.ValueOfString(Mark))
		return true
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				changed = hideTexts(v.Message(), depth+1) || changed
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				changed = hideTexts(v.List().Get(i).Message(), depth+1) || changed
			}
		case f.Kind() == protoreflect.MessageKind:
			changed = hideTexts(v.Message(), depth+1) || changed
		}
		return true
	})
	return changed
}
