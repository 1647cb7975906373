package conn

import (
	"encoding/binary"
	"time"
)

// message is what has come of a gRPC message: five bytes that end with its length, and
// then the message. The zero message is that before one.
type message struct {
	prefix [5]byte
	have   uint8  // bytes of prefix
	left   uint32 // bytes that are still to come, once prefix is there
	size   int    // bytes that have come
	spread int    // bytes that gRPC keeps of it beyond that; see kept
	since  time.Time
	// awaited is a stream's first message, which there is to be even if nothing of it
	// has come.
	awaited bool
	// cut is set once the stream was ended because of the message.
	cut bool
}

// take takes what comes of a stream. It tells whether a message is complete with it, and
// how long those are that are, but for a stream's first.
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

// kept is how much gRPC keeps of a piece of a message of n bytes, one frame of it, beyond
// these: it has an object for each, and buffers of a few sizes.
func kept(n int) int {
	const (
		object        = 64
		exact         = 1 << 10 // up to here a buffer is as long as what it holds
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

// takes is what there is of the message in memory, in bytes.
func (m *message) takes() int { return m.size + m.spread }

// isMessage tells whether p is one message.
func isMessage(p []byte) bool {
	const prefix = len(message{}.prefix)
	return len(p) >= prefix && int64(binary.BigEndian.Uint32(p[1:])) == int64(len(p)-prefix)
}

// none tells that there is nothing to wait for.
func (m *message) none() bool { return m.size == 0 && !m.awaited && !m.cut }

// due is when the message has to be complete; zero for never.
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
