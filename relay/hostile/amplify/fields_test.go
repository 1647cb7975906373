package amplify

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// path is how to get from a message to one of its fields, outermost first.
type path []protoreflect.FieldDescriptor

func (p path) String() string {
	names := make([]string, len(p))
	for i, f := range p {
		names[i] = string(f.Name())
	}
	return strings.Join(names, ".")
}

func (p path) leaf() protoreflect.FieldDescriptor { return p[len(p)-1] }

// fieldsOf are the paths to all fields of a message, those of its parts included. A
// message within itself is not followed; [nested] fills that.
func fieldsOf(m protoreflect.MessageDescriptor) (all []path) {
	return walk(m, nil, map[protoreflect.FullName]bool{m.FullName(): true})
}

func walk(m protoreflect.MessageDescriptor, to path, within map[protoreflect.FullName]bool) (all []path) {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		p := append(append(path{}, to...), f)
		all = append(all, p)
		part := f.Message()
		if part == nil || within[part.FullName()] {
			continue
		}
		within[part.FullName()] = true
		all = append(all, walk(part, p, within)...)
		delete(within, part.FullName())
	}
	return all
}

// pattern is a way to fill a field with about so many bytes that hurts.
type pattern struct {
	name string
	fill func(f protoreflect.FieldDescriptor, size int) []byte // the field with its tags
}

// texts are patterns that a search for secrets finds hard, one for each expression that
// it has, and those of escapes and quotes that do not end.
var texts = []string{"a:a:", "a=", `a:"`, `a:\"`, `a:'`, "a.a.", "x://", "-----BEGIN x-----", "bearer ", "basic ", "eyJ", "hvs.", "ghp_", "password="}

// The patterns.
var (
	emptyEntries = pattern{"many empty entries", func(f protoreflect.FieldDescriptor, size int) []byte {
		return repeated(f, size, func(int) []byte { return nil })
	}}
	distinctEntries = pattern{"many entries", func(f protoreflect.FieldDescriptor, size int) []byte {
		return repeated(f, size, func(i int) []byte { return entry(f, i) })
	}}
	equalEntries = pattern{"equal entries", func(f protoreflect.FieldDescriptor, size int) []byte {
		return repeated(f, size, func(int) []byte { return entry(f, 1) })
	}}
	hugeText = pattern{"one huge text", func(f protoreflect.FieldDescriptor, size int) []byte {
		return lengthed(f, []byte(strings.Repeat("x", size)))
	}}
	repeatedText = pattern{"one text many times", func(f protoreflect.FieldDescriptor, size int) []byte {
		return repeated(f, size, func(int) []byte { return nil })
	}}
	nested = pattern{"deep nesting", nest}
	// packed ends with a zero: what a number makes the node do is no matter of how many
	// there are, and a resource that must not be cached would give the rows that follow
	// another stream.
	packed = pattern{"many numbers", func(f protoreflect.FieldDescriptor, size int) (b []byte) {
		for len(b) < size {
			b = number(b, f, 1)
		}
		return number(b, f, 0)
	}}
)

// separators are texts of one of [texts], again and again.
func separators(text string) pattern {
	return pattern{fmt.Sprintf("%q repeated", text), func(f protoreflect.FieldDescriptor, size int) []byte {
		return lengthed(f, []byte(strings.Repeat(text, size/len(text))))
	}}
}

// patternsFor are those that a field can be filled with. Where all is not asked for, a
// text is filled with the first of [texts] alone.
func patternsFor(f protoreflect.FieldDescriptor, all bool) (ps []pattern) {
	switch {
	case f.IsMap():
		return []pattern{distinctEntries, equalEntries}
	case f.Message() != nil:
		ps = append(ps, emptyEntries)
		if recurses(f) {
			ps = append(ps, nested)
		}
		return ps
	case f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind:
		if f.IsList() {
			ps = append(ps, emptyEntries, distinctEntries)
		} else {
			ps = append(ps, hugeText, repeatedText)
		}
		if f.Kind() == protoreflect.BytesKind {
			return ps
		}
		for i, text := range texts {
			if i == 0 || all {
				ps = append(ps, separators(text))
			}
		}
		return ps
	}
	return []pattern{packed}
}

// message is one in wire form with about size bytes in the field at the end of a path.
func (p path) message(fill pattern, size int) []byte {
	b := fill.fill(p.leaf(), size)
	for i := len(p) - 2; i >= 0; i-- {
		b = lengthed(p[i], b)
	}
	return b
}

// messageWith is message with what the outermost part has besides, if that is a part.
func (p path) messageWith(besides proto.Message, fill pattern, size int) []byte {
	if len(p) == 1 || besides == nil || besides.ProtoReflect().Descriptor() != p[0].Message() {
		return p.message(fill, size)
	}
	return lengthed(p[0], append(encode(besides), p[1:].message(fill, size)...))
}

func lengthed(f protoreflect.FieldDescriptor, value []byte) []byte {
	b := make([]byte, 0, len(value)+10)
	return protowire.AppendBytes(protowire.AppendTag(b, f.Number(), protowire.BytesType), value)
}

func repeated(f protoreflect.FieldDescriptor, size int, entry func(i int) []byte) []byte {
	b := make([]byte, 0, size+64)
	for i := 0; len(b) < size; i++ {
		b = protowire.AppendBytes(protowire.AppendTag(b, f.Number(), protowire.BytesType), entry(i))
	}
	return b
}

// entry is the i-th different value of a list or a map.
func entry(f protoreflect.FieldDescriptor, i int) []byte {
	text := fmt.Sprint(i)
	if !f.IsMap() {
		return []byte(text)
	}
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), text)
}

// recurses reports whether a message is again part of itself by some field.
func recurses(f protoreflect.FieldDescriptor) bool { return len(wayBack(f)) > 0 }

// wayBack is a way from a field's message to itself.
func wayBack(f protoreflect.FieldDescriptor) path {
	m := f.Message()
	for _, p := range fieldsOf(m) {
		if part := p.leaf().Message(); part != nil && part.FullName() == m.FullName() {
			return p
		}
	}
	return nil
}

// nest is a message in itself, as deep as there is room for.
func nest(f protoreflect.FieldDescriptor, size int) []byte {
	// Built from the end, so that each level is written once.
	back, at := wayBack(f), size
	buffer := make([]byte, size)
	for {
		for _, field := range slices.Backward(back) {
			head := protowire.AppendVarint(protowire.AppendTag(nil, field.Number(), protowire.BytesType), uint64(size-at))
			if len(head)+10 > at {
				return lengthed(f, buffer[at:])
			}
			at -= len(head)
			copy(buffer[at:], head)
		}
	}
}

// number adds a field that has a number of any kind.
func number(b []byte, f protoreflect.FieldDescriptor, value uint32) []byte {
	switch f.Kind() {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.AppendFixed32(protowire.AppendTag(b, f.Number(), protowire.Fixed32Type), value)
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.AppendFixed64(protowire.AppendTag(b, f.Number(), protowire.Fixed64Type), uint64(value))
	}
	return protowire.AppendVarint(protowire.AppendTag(b, f.Number(), protowire.VarintType), uint64(value))
}

// sorted goes through a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
