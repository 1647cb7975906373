package conn

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// headerLen is the length of a frame's header (RFC 9113, 4.1).
const headerLen = 9

// frames follows where frames begin in what is sent.
type frames struct {
	head [headerLen]byte
	have int // bytes of head
	left int // bytes of the frame's body that are still to come
}

// step takes the first piece of p, of a header or of a body, and returns its length. It
// tells whether a header is complete with it; is then says what of.
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

// is says what the frame is whose header was complete last.
func (f *frames) is() (kind http2.FrameType, flags http2.Flags, stream uint32) {
	return http2.FrameType(f.head[3]), http2.Flags(f.head[4]), binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1)
}

// between tells whether the next byte begins a frame.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 }

// missing is how much is left of the header or the body that is coming.
func (f *frames) missing() int {
	if f.left > 0 {
		return f.left
	}
	return headerLen - f.have
}

// goAway is the frame that ends a connection: with the highest of all stream ids, since
// those that the client opens before it reads this are served, too, if the connection
// stays for that long (RFC 9113, 6.8).
func goAway(code http2.ErrCode, why string) []byte {
	const lastStream = 1<<31 - 1
	size := 8 + len(why)
	frame := []byte{byte(size >> 16), byte(size >> 8), byte(size), byte(http2.FrameGoAway), 0, 0, 0, 0, 0}
	frame = binary.BigEndian.AppendUint32(frame, lastStream)
	frame = binary.BigEndian.AppendUint32(frame, uint32(code))
	return append(frame, why...)
}

// resets are frames that end streams at once.
func resets(streams []uint32, code http2.ErrCode) (frames []byte) {
	for _, stream := range streams {
		frames = append(frames, 0, 0, 4, byte(http2.FrameRSTStream), 0)
		frames = binary.BigEndian.AppendUint32(frames, stream)
		frames = binary.BigEndian.AppendUint32(frames, uint32(code))
	}
	return frames
}
