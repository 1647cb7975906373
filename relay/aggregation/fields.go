package aggregation

import (
	"maps"
	"math"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// Fields are the parts of a Node that expressions read. The zero value is none.
type Fields struct {
	numbers  uint64 // bits, by field number
	metadata []path // what of the metadata, below it; an empty one is all of it
}

// metadataNumber is the field of a Node that is told apart further.
const metadataNumber protowire.Number = 3

var nodeDescriptor = (*corev3.Node)(nil).ProtoReflect().Descriptor()

// add adds what a path leads to; an empty one is the whole Node.
func (f *Fields) add(p path) {
	if len(p) == 0 {
		f.numbers, f.metadata = math.MaxUint64, []path{{}}
		return
	}
	field := nodeDescriptor.Fields().ByName(protoreflect.Name(p[0]))
	if field == nil {
		return // it was type-checked, so this cannot be
	}
	f.numbers |= 1 << field.Number()
	if field.Number() == metadataNumber {
		f.metadata = normalize(append(f.metadata, p[1:]))
	}
}

// Numbers are the fields of a Node of which anything is read, bits by field number.
func (f Fields) Numbers() uint64 { return f.numbers }

// And returns the fields of both.
func (f Fields) And(g Fields) Fields {
	return Fields{f.numbers | g.numbers, normalize(append(append([]path{}, f.metadata...), g.metadata...))}
}

// Within reports whether all of it is among the fields g and those of a set, bits
// by field number.
func (f Fields) Within(g Fields, set uint64) bool {
	if f.numbers&^(g.numbers|set) != 0 {
		return false
	}
	if set&(1<<metadataNumber) != 0 {
		return true
	}
	both := normalize(append(append([]path{}, f.metadata...), g.metadata...))
	return slices.EqualFunc(both, g.metadata, func(a, b path) bool { return slices.Equal(a, b) })
}

// Extract returns, encoded, what is read of node beyond the fields of a set, bits by
// field number; "" for nothing. An expression gives the same for node and for what
// the two together hold.
func (f Fields) Extract(node *corev3.Node, set uint64) string {
	if f.numbers&^set == 0 {
		return ""
	}
	out := &corev3.Node{}
	m := out.ProtoReflect()
	node.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		bit := uint64(1) << fd.Number()
		switch {
		case f.numbers&bit == 0 || set&bit != 0:
		case fd.Number() == metadataNumber:
			out.Metadata = newStruct()
			for _, p := range f.metadata {
				extract(out.Metadata, node.GetMetadata(), p)
			}
		default:
			m.Set(fd, v)
		}
		return true
	})
	b, err := proto.Marshal(out)
	if err != nil {
		return "" // it was read from the wire, so it can be written
	}
	return string(b)
}

// extract puts into dst what of src lies at p, or as far as that leads: that it
// ends there is a part of what an expression sees.
func extract(dst, src *structpb.Struct, p path) {
	if len(p) == 0 {
		maps.Copy(dst.Fields, src.GetFields())
		return
	}
	v, ok := src.GetFields()[p[0]]
	if !ok {
		return
	}
	inner := v.GetStructValue()
	if len(p) == 1 || inner == nil {
		dst.Fields[p[0]] = v
		return
	}
	next := dst.Fields[p[0]].GetStructValue()
	if next == nil {
		next = newStruct()
		dst.Fields[p[0]] = structpb.NewStructValue(next)
	}
	extract(next, inner, p[1:])
}
