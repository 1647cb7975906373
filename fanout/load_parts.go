package fanout

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"xdsrelay/relay/resource"
)

// maxLoadParts bounds the messages in a load report: decoded, each takes hundreds of bytes, encoded
// as few as two. An account has room for fewer.
const maxLoadParts = 200_000

// messagesIn counts the messages in an encoded message. It stops when there are more than most, and
// at the first error. It counts what is nested as deep as [readable] decodes, which refuses what is
// nested deeper: each level takes some of the stack, which would grow to megabytes.
func messagesIn(raw []byte, of protoreflect.MessageDescriptor, most int) int {
	return messagesWithin(raw, of, most, resource.MaxNesting)
}

// messagesWithin is messagesIn for the given number of levels.
func messagesWithin(raw []byte, of protoreflect.MessageDescriptor, most, levels int) (n int) {
	fields := of.Fields()
	for len(raw) > 0 && n <= most {
		number, kind, size := protowire.ConsumeField(raw)
		if size < 0 {
			return n
		}
		field := fields.ByNumber(number)
		if kind == protowire.BytesType && field != nil && field.Message() != nil {
			n++
			if levels > 1 {
				_, _, tag := protowire.ConsumeTag(raw)
				inner, _ := protowire.ConsumeBytes(raw[tag:])
				n += messagesWithin(inner, field.Message(), most-n, levels-1)
			}
		}
		raw = raw[size:]
	}
	return n
}
