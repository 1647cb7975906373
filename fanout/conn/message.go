package conn

import (
	"encoding/binary"
	"time"
)

// message is the state of an incomplete gRPC message: five bytes of prefix, which end with the
// length, and then the message itself. The zero value is the state between messages.
type message struct {
	prefix [5]byte
	have   uint8  // bytes of prefix
	left   uint32 // bytes still to come once prefix is complete
	size   int    // bytes received
	spread int    // memory that grpc-go uses for it beyond size; see kept
	since  time.Time
	// awaited marks the first message of a stream, which is incomplete even before its first byte.
	awaited bool
	// cut is set once the stream was reset because of the message.
	cut bool
}

// take consumes bytes of a stream. It reports whether they complete a message, and the total size
// of the completed messages except for the first of the stream.
func (m *message) take(p []byte) (complete bool, size int) {
	for len(p) > 0 {
		if int(m.have) < len(m.prefix) {
			n := copy(m.prefix[m.have:], p)
			m.have += uint8(n)
			m.size += n
			p = p[n:]
			if int(m.have) < len(m.prefix) {
				break
			}
			m.left = binary.BigEndian.Uint32(m.prefix[1:])
		} else {
			n := min(int64(m.left), int64(len(p)))
			m.left -= uint32(n)
			m.size += int(n)
			p = p[n:]
		}
		if m.left == 0 {
			if !m.awaited {
				size += m.size
			}
			*m = message{}
			complete = true
		}
	}
	return complete, size
}

// kept estimates the memory that grpc-go uses for a piece of n bytes (one frame) of a message,
// beyond these bytes: one object, and a buffer of one of a few sizes.
func kept(n int) int {
	const (
		object        = 64
		exact         = 1 << 10 // up to here a buffer has the length of its content
		small, larger = 4 << 10, 16 << 10
	)
	switch {
	case n == 0:
		return 0
	case n <= exact:
		return object
	case n <= small:
		return object + small - n
	}
	return object + max(larger-n, 0)
}

// takes returns the memory of the message, in bytes.
func (m *message) takes() int { return m.size + m.spread }

// isMessage reports whether p is exactly one message.
func isMessage(p []byte) bool {
	const prefix = len(message{}.prefix)
	return len(p) >= prefix && int64(binary.BigEndian.Uint32(p[1:])) == int64(len(p)-prefix)
}

// none reports whether nothing is incomplete.
func (m *message) none() bool { return m.size == 0 && !m.awaited && !m.cut }

// due returns the deadline of the message; zero for none.
func (m *message) due(b Bounds) time.Time {
	within := b.Request
	if m.awaited {
		within = b.First
	}
	if within <= 0 || m.cut {
		return time.Time{}
	}
	return m.since.Add(within)
}
