package fanout

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxLoadParts bounds the messages that lie in a load report: decoded, each takes some
// hundred bytes, and on the wire maybe two. An account has room for fewer.
const maxLoadParts = 200_000

// messagesIn counts the messages that lie in an encoded one of a kind, at any depth. It
// stops where there are more than most, and at what cannot be read.
func messagesIn(raw []byte, of protoreflect.MessageDescriptor, most int) (n int) {
	fields := of.Fields()
	for len(raw) > 0 && n <= most {
		number, kind, size := protowire.ConsumeField(raw)
		if size < 0 {
			return n
		}
		field := fields.ByNumber(number)
		if kind == protowire.BytesType && field != nil && field.Message() != nil {
			_, _, tag := protowire.ConsumeTag(raw)
			inner, _ := protowire.ConsumeBytes(raw[tag:])
			n += 1 + messagesIn(inner, field.Message(), most-n-1)
		}
		raw = raw[size:]
	}
	return n
}
