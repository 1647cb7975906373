package fanout

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxLoadParts bounds the messages in a load report: decoded, each takes hundreds of bytes, encoded
// as few as two. An account has room for fewer.
const maxLoadParts = 200_000

// messagesIn counts the messages in an encoded message, at any depth. It stops when there are more
// than most, and at the first error.
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
