package conn

import "encoding/binary"

// Refused is a refusal that grpc-go makes itself. grpc-go does not report these, so they are read
// off the frames that it writes.
type Refused int

// The refusals.
const (
	notRefused   Refused = iota
	ManyStreams          // a stream over the limit of a connection
	LargeHeaders         // headers over the size limit
	ManyPings            // more pings than a client may send
	Idle                 // a connection without a stream
)

// Values of HTTP/2 (RFC 9113, 6 and 7).
const (
	typeReset, typeGoAway = 3, 7

	noError, frameSize, refusedStream, calm = 0, 6, 7, 11

	anyStream = 1<<31 - 1
)

// endOf returns the refusal that a frame expresses, given its type and first bytes.
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
	case code == noError && why == "max_idle" && last == anyStream: // grpc-go sends a second GOAWAY, with the last stream
		return Idle
	}
	return notRefused
}

// ended reports a refusal to the listener.
func (c *Conn) ended(kind byte, body []byte) {
	if r := endOf(kind, body); r != notRefused {
		c.listener.cfg.Refused(r, c.from.String())
	}
}
