package redact

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// scrubField hides all that a field holds, but for what kind of thing it is.
func scrubField(m protoreflect.Message, f protoreflect.FieldDescriptor, v protoreflect.Value) (changed bool) {
	switch {
	case f.IsMap():
		entries := v.Map()
		entries.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			changed = scrubbed(f.MapValue(), v, func(v protoreflect.Value) { entries.Set(k, v) }) || changed
			return true
		})
	case f.IsList():
		list := v.List()
		for i := range list.Len() {
			changed = scrubbed(f, list.Get(i), func(v protoreflect.Value) { list.Set(i, v) }) || changed
		}
	default:
		changed = scrubbed(f, v, func(v protoreflect.Value) { m.Set(f, v) })
	}
	return changed
}

// scrubbed hides one value. set replaces it.
func scrubbed(f protoreflect.FieldDescriptor, v protoreflect.Value, set func(protoreflect.Value)) bool {
	switch f.Kind() {
	case protoreflect.StringKind:
		set(protoreflect.ValueOfString(Mark))
	case protoreflect.BytesKind:
		set(protoreflect.ValueOfBytes([]byte(Mark)))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return scrub(v.Message())
	case protoreflect.BoolKind, protoreflect.EnumKind:
		return false
	default: // a number
		if !f.IsList() && !f.ContainingMessage().IsMapEntry() {
			set(f.Default())
			return true
		}
		set(zero(f))
	}
	return true
}

// zero is the number 0 of a field's kind.
func zero(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(0)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(0)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(0)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(0)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0)
	}
	return protoreflect.ValueOfInt64(0)
}

// scrub hides all that a message holds. Where a source of data names a file or a
// variable that stays: it is not the secret.
func scrub(m protoreflect.Message) (changed bool) {
	if len(m.GetUnknown()) > 0 {
		m.SetUnknown(nil)
		changed = true
	}
	fields := m.Descriptor().Fields()
	switch m.Descriptor().FullName() {
	case anyName:
		return hideAny(m)
	case valueName:
		m.Set(fields.ByName("string_value"), protoreflect.ValueOfString(Mark))
		return true
	case sourceName:
		for _, name := range []protoreflect.Name{"inline_bytes", "inline_string"} {
			if f := fields.ByName(name); m.Has(f) {
				changed = scrubField(m, f, m.Get(f)) || changed
			}
		}
		return changed
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		changed = scrubField(m, f, v) || changed
		return true
	})
	return changed
}

// empty takes everything out of a message.
func empty(m protoreflect.Message) (changed bool) {
	changed = len(m.GetUnknown()) > 0
	m.SetUnknown(nil)
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		m.Clear(f)
		changed = true
		return true
	})
	return changed
}
