package h2

import (
	"encoding/binary"
	"slices"

	"google.golang.org/grpc/codes"
)

// receiving is what comes from the server. It is owned by Serve's goroutine.
type receiving struct {
	greeted    bool // the server began with SETTINGS
	left, owed int  // what the server may still send on the connection, and is owed

	// The DATA frame that is being received.
	rest   int     // bytes of it that are to come
	stream *Stream // nil for one that has ended
	last   bool    // it ends the stream

	block headerBlock
}

// headerBlock is a header block that comes in several frames.
type headerBlock struct {
	stream    uint32 // 0 for none
	endStream bool
	bytes     []byte
}

// consume takes whole frames, and pieces of DATA frames, and returns what
// remains: the beginning of a frame.
func (c *Conn) consume(b []byte) (remains []byte, err error) {
	if c.cfg.Plain {
		for _, s := range c.streams {
			s.data(b)
		}
		return nil, nil
	}
	for len(b) > 0 {
		if c.rx.rest > 0 {
			n := min(c.rx.rest, len(b))
			c.piece(b[:n])
			b = b[n:]
			continue
		}
		if len(b) < frameHeaderLen {
			break
		}
		h := parseFrameHeader(b)
		if !c.rx.greeted && h.kind != frameSettings {
			return nil, violation(codeProtocol, "the server does not begin with SETTINGS but with %q: is it one of HTTP/2?", b[:frameHeaderLen])
		}
		c.rx.greeted = true
		if h.length > maxFrame {
			return nil, violation(codeFrameSize, "a frame of %d bytes, expected %d at most", h.length, maxFrame)
		}
		if c.rx.block.stream != 0 && (h.kind != frameContinuation || h.stream != c.rx.block.stream) {
			return nil, violation(codeProtocol, "a frame of type %d in the middle of a header block", h.kind)
		}
		if h.kind == frameData && !h.has(flagPadded) {
			if err := c.beginData(h, h.length); err != nil {
				return nil, err
			}
			b = b[frameHeaderLen:]
			continue
		}
		if len(b) < frameHeaderLen+h.length {
			break
		}
		if err := c.whole(h, b[frameHeaderLen:frameHeaderLen+h.length]); err != nil {
			return nil, err
		}
		b = b[frameHeaderLen+h.length:]
	}
	return b, nil
}

// beginData accounts for a DATA frame, of which n bytes are content.
func (c *Conn) beginData(h frameHeader, n int) error {
	s := c.streams[h.stream]
	switch {
	case h.stream == 0 || s == nil && h.stream >= c.nextID:
		return violation(codeProtocol, "DATA on stream %d, which was never opened", h.stream)
	case h.length > c.rx.left || s != nil && h.length > s.left:
		return violation(codeFlowControl, "a DATA frame of %d bytes, which is more than the window", h.length)
	}
	c.rx.left -= h.length
	c.rx.owed += h.length
	if s != nil {
		s.left -= h.length
		s.owed += h.length
	}
	c.rx.rest, c.rx.stream, c.rx.last = n, s, h.has(flagEndStream)
	if n == 0 {
		c.endData()
	}
	return nil
}

// piece takes content of the DATA frame that was begun.
func (c *Conn) piece(b []byte) {
	c.rx.rest -= len(b)
	if s := c.rx.stream; s != nil {
		if !s.started && !s.ended {
			s.breach("DATA ahead of the response headers")
		}
		s.data(b)
	}
	if c.rx.rest == 0 {
		c.endData()
	}
}

// endData gives the server new room, and ends a stream that goes without
// trailers.
func (c *Conn) endData() {
	s := c.rx.stream
	c.rx.stream = nil
	if c.rx.owed >= c.cfg.ConnWindow/2 {
		*c.tx.out = appendWindowUpdate(c.buffer(), 0, c.rx.owed)
		c.rx.left += c.rx.owed
		c.rx.owed = 0
	}
	if s == nil || s.ended {
		return
	}
	if c.rx.last {
		delete(c.streams, s.id)
		s.finish(Status{Code: codes.Internal, Breach: true, Message: "the stream ended without trailers"})
		return
	}
	if s.owed >= c.cfg.StreamWindow/2 {
		*c.tx.out = appendWindowUpdate(c.buffer(), s.id, s.owed)
		s.left += s.owed
		s.owed = 0
	}
}

// whole takes one frame.
func (c *Conn) whole(h frameHeader, payload []byte) error {
	switch h.kind {
	case frameData:
		content, err := unpad(h, payload)
		if err == nil {
			err = c.beginData(h, len(content))
		}
		if err == nil && len(content) > 0 {
			c.piece(content)
		}
		return err
	case frameHeaders, frameContinuation:
		return c.header(h, payload)
	case frameRSTStream:
		if len(payload) != 4 {
			return violation(codeFrameSize, "RST_STREAM of %d bytes, expected 4", len(payload))
		}
		if s := c.streams[h.stream]; s != nil {
			delete(c.streams, h.stream)
			s.finish(reset(binary.BigEndian.Uint32(payload)))
		}
	case frameSettings:
		return c.settings(h, payload)
	case framePushPromise:
		return violation(codeProtocol, "PUSH_PROMISE, which was declined")
	case framePing:
		if len(payload) != 8 {
			return violation(codeFrameSize, "PING of %d bytes, expected 8", len(payload))
		}
		if !h.has(flagACK) {
			*c.tx.out = append(appendFrameHeader(c.buffer(), 8, framePing, flagACK, 0), payload...)
		}
	case frameGoAway:
		if len(payload) < 8 {
			return violation(codeFrameSize, "GOAWAY of %d bytes, expected 8 at least", len(payload))
		}
		last := binary.BigEndian.Uint32(payload) &^ (1 << 31)
		c.goAway(last, binary.BigEndian.Uint32(payload[4:]), payload[8:])
	case frameWindowUpdate:
		return c.windowUpdate(h.stream, payload)
	}
	return nil
}

// header takes a piece of a header block.
func (c *Conn) header(h frameHeader, payload []byte) error {
	block := &c.rx.block
	if h.kind == frameContinuation {
		if block.stream == 0 {
			return violation(codeProtocol, "CONTINUATION without HEADERS")
		}
		block.bytes = append(block.bytes, payload...)
		if len(block.bytes) > maxHeaders {
			return violation(codeProtocol, "a header block of more than %d bytes", maxHeaders)
		}
	} else {
		content, err := unpad(h, payload)
		if err != nil {
			return err
		}
		*block = headerBlock{stream: h.stream, endStream: h.has(flagEndStream), bytes: content}
		if !h.has(flagEndHeaders) {
			block.bytes = slices.Clone(content)
		}
	}
	if !h.has(flagEndHeaders) {
		return nil
	}
	done := *block
	*block = headerBlock{}
	s := c.streams[done.stream]
	switch {
	case done.stream == 0 || done.stream >= c.nextID:
		return violation(codeProtocol, "HEADERS on stream %d, which was never opened", done.stream)
	case s == nil:
		return nil // it has ended; there is no table that its headers could change
	}
	return s.headers(done.bytes, done.endStream)
}
