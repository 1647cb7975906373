package conn

import "encoding/binary"

// Refused is what grpc-go has refused a client by itself. It tells nobody, so that it
// has to be read off what it writes.
type Refused int

// What there is.
const (
	notRefused   Refused = iota
	ManyStreams          // a stream beyond those that one connection may have
	LargeHeaders         // headers that are larger than it reads
	ManyPings            // more pings than a client may send
	Idle                 // a connection without a stream
)

// What HTTP/2 calls it (RFC 9113, 6 and 7).
const (
	typeReset, typeGoAway = 3, 7

	noError, frameSize, refusedStream, calm = 0, 6, 7, 11

	anyStream = 1<<31 - 1
)

// endOf is what a frame of a kind says that begins so.
func endOf(kind byte, body []byte) Refused {
	if kind == typeReset && len(body) >= 4 {
		switch binary.BigEndian.Uint32(body) {
		case refusedStream:
			return ManyStreams
		case frameSize:
			return LargeHeaders
		}
	}
	if kind != typeGoAway || len(body) < 8 {
		return notRefused
	}
	last, code, why := binary.BigEndian.Uint32(body)&anyStream, binary.BigEndian.Uint32(body[4:]), string(body[8:])
	switch {
	case code == calm && why == "too_many_pings":
		return ManyPings
	case code == noError && why == "max_idle" && last == anyStream: // and it says so again, with the last stream
		return Idle
	}
	return notRefused
}

// ended tells what was refused.
func (c *Conn) ended(kind byte, body []byte) {
	if r := endOf(kind, body); r != notRefused {
		c.door.cfg.Refused(r, c.from.String())
	}
}
