package redact

import (
	"github.com/cncf/xds/go/udpa/annotations"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// maxDepth is how deep messages are looked into; what is deeper is left out.
const maxDepth = 64

// Redactor redacts messages. It remembers what it found out about their types, so
// that it should be kept for many of them. The zero value is ready; it is not for
// use by several goroutines at once.
type Redactor struct {
	fields map[protoreflect.FieldDescriptor]bool // which are hidden
}

// Node returns what may be shown of a client's Node, as a copy; nil for nil.
func Node(n *corev3.Node) *corev3.Node {
	if n == nil {
		return nil
	}
	out := proto.CloneOf(n)
	new(Redactor).Message(out)
	return out
}

// Message hides in m what is not to be shown, and reports whether there was any.
func (r *Redactor) Message(m proto.Message) bool { return r.walk(m.ProtoReflect(), 0) }

// walk looks into a message and reports whether it changed something.
func (r *Redactor) walk(m protoreflect.Message, depth int) (changed bool) {
	if depth > maxDepth {
		return empty(m)
	}
	if len(m.GetUnknown()) > 0 { // of a newer API, which may have added a secret
		m.SetUnknown(nil)
		changed = true
	}
	switch name := m.Descriptor().FullName(); {
	case name == anyName:
		return r.walkAny(m, depth) || changed
	case secrets[name]:
		return hideSecret(m) || changed
	case pairs[name]:
		return r.walkPair(m, depth) || changed
	case name == structName:
		changed = hidePair(m) || changed
	case name == valueName:
		changed = speakable(m) || changed
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if r.hidden(f) {
			changed = scrubField(m, f, v) || changed
		} else {
			changed = r.walkField(m, f, v, depth) || changed
		}
		return true
	})
	return changed
}

// walkField looks into a field that may be shown as such.
func (r *Redactor) walkField(m protoreflect.Message, f protoreflect.FieldDescriptor, v protoreflect.Value, depth int) (changed bool) {
	switch {
	case f.IsMap():
		leaf := isLeaf(f.MapValue())
		entries := v.Map()
		entries.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			if leaf && f.MapKey().Kind() == protoreflect.StringKind && Sensitive(k.String()) {
				changed = scrubbed(f.MapValue(), v, func(v protoreflect.Value) { entries.Set(k, v) }) || changed
			} else {
				changed = r.walkValue(f.MapValue(), v, depth, func(v protoreflect.Value) { entries.Set(k, v) }) || changed
			}
			return true
		})
	case f.IsList():
		list := v.List()
		for i := range list.Len() {
			changed = r.walkValue(f, list.Get(i), depth, func(v protoreflect.Value) { list.Set(i, v) }) || changed
		}
	default:
		changed = r.walkValue(f, v, depth, func(v protoreflect.Value) { m.Set(f, v) })
	}
	return changed
}

// walkValue looks into one value. set replaces it.
func (r *Redactor) walkValue(f protoreflect.FieldDescriptor, v protoreflect.Value, depth int, set func(protoreflect.Value)) bool {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return r.walk(v.Message(), depth+1)
	case protoreflect.StringKind:
		if s := patterns(v.String()); s != v.String() {
			set(protoreflect.ValueOfString(s))
			return true
		}
	case protoreflect.BytesKind:
		if s := patterns(string(v.Bytes())); s != string(v.Bytes()) {
			set(protoreflect.ValueOfBytes([]byte(s)))
			return true
		}
	}
	return false
}

// hidden reports whether the values of a field are not to be shown at all.
func (r *Redactor) hidden(f protoreflect.FieldDescriptor) bool {
	is, known := r.fields[f]
	if !known {
		options, _ := f.Options().(*descriptorpb.FieldOptions)
		marked, _ := proto.GetExtension(options, annotations.E_Sensitive).(bool)
		value := f
		if f.IsMap() {
			value = f.MapValue()
		}
		is = marked || isLeaf(value) && Sensitive(string(f.Name()))
		if r.fields == nil {
			r.fields = make(map[protoreflect.FieldDescriptor]bool)
		}
		r.fields[f] = is
	}
	return is
}

// isLeaf reports whether a field holds content rather than further fields, which
// have names of their own.
func isLeaf(f protoreflect.FieldDescriptor) bool {
	switch f.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return true
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.StringValue", "google.protobuf.BytesValue", valueName:
			return true
		}
	}
	return false
}
