package fanout

import (
	"strconv"

	"xdsrelay/fanout/transport"
	"xdsrelay/relay/resource"
)

// maxDigits is the maximum length of a nonce, in bytes.
const maxDigits = 20

// newMessage returns a response to be sent: a body that many clients share, and the nonce of this
// client alone. Protobuf fields may be in any order, so the two are concatenated and never merged.
func newMessage(body []byte, nonce uint64) *transport.Message {
	m := &transport.Message{Body: body}
	var digits [maxDigits]byte
	m.Tail = resource.AppendNonce(m.Room(), strconv.AppendUint(digits[:0], nonce, 10))
	return m
}
