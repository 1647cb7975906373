package conn

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// headerLen is the length of a frame header (RFC 9113, 4.1).
const headerLen = 9

// frames tracks frame boundaries in a stream of bytes.
type frames struct {
	head [headerLen]byte
	have int // bytes of head
	left int // bytes of the frame's body still to come
}

// step consumes the first piece of p, which belongs to one header or one body, and returns its
// length. head reports whether the piece completes a header; is then describes it.
func (f *frames) step(p []byte) (n int, head bool) {
	if f.left > 0 {
		n := min(f.left, len(p))
		f.left -= n
		return n, false
	}
	n = copy(f.head[f.have:], p)
	if f.have += n; f.have < headerLen {
		return n, false
	}
	f.have = 0
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	return n, true
}

// is describes the frame of the last complete header.
func (f *frames) is() (kind http2.FrameType, flags http2.Flags, stream uint32) {
	return http2.FrameType(f.head[3]), http2.Flags(f.head[4]), binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1)
}

// between reports whether the next byte begins a frame.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 }

// missing returns the bytes that are left of the current header or body.
func (f *frames) missing() int {
	if f.left > 0 {
		return f.left
	}
	return headerLen - f.have
}

// goAway encodes a frame that ends a connection. Its last stream is the highest possible id,
// because streams that the client opens before it reads the frame are served, too, if the
// connection lives that long (RFC 9113, 6.8).
func goAway(code http2.ErrCode, why string) []byte {
	const lastStream = 1<<31 - 1
	size := 8 + len(why)
	frame := []byte{byte(size >> 16), byte(size >> 8), byte(size), byte(http2.FrameGoAway), 0, 0, 0, 0, 0}
	frame = binary.BigEndian.AppendUint32(frame, lastStream)
	frame = binary.BigEndian.AppendUint32(frame, uint32(code))
	return append(frame, why...)
}

// resets encodes frames that reset streams.
func resets(streams []uint32, code http2.ErrCode) (frames []byte) {
	for _, stream := range streams {
		frames = append(frames, 0, 0, 4, byte(http2.FrameRSTStream), 0)
		frames = binary.BigEndian.AppendUint32(frames, stream)
		frames = binary.BigEndian.AppendUint32(frames, uint32(code))
	}
	return frames
}
