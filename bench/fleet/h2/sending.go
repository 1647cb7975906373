package h2

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// sending is what goes to the server. It is owned by Serve's goroutine.
type sending struct {
	out     *[]byte   // frames that wait for the next write; nil for none
	window  int       // of the connection
	initial int       // of a new stream
	blocked []*Stream // those with something waiting, first come first served
}

// buffer is what frames are appended to; the result goes into *c.tx.out.
func (c *Conn) buffer() []byte {
	if c.tx.out == nil {
		c.tx.out = takeBuffer(1)
	}
	return *c.tx.out
}

// room makes room for so many bytes of content, from a pool where there is not
// enough.
func (c *Conn) room(n int) {
	if n <= 0 {
		return
	}
	have := c.buffer()
	if n += (n/maxFrame + 1) * frameHeaderLen; n <= cap(have)-len(have) {
		return
	}
	old := c.tx.out
	c.tx.out = takeBuffer(len(have) + n)
	*c.tx.out = append(*c.tx.out, have...)
	giveBuffer(old)
}

// flush writes what is there.
func (c *Conn) flush() error {
	if c.tx.out == nil {
		return nil
	}
	n, err := c.net.Write(*c.tx.out)
	if c.cfg.Traffic != nil {
		c.cfg.Traffic.Out.Add(int64(n))
	}
	giveBuffer(c.tx.out)
	c.tx.out = nil
	return err
}

// send frames what the windows allow of a message and lets the rest wait. Its parts share frames, as
// those of real clients do.
func (c *Conn) send(s *Stream, parts [][]byte) {
	if c.cfg.Plain {
		for _, p := range parts {
			*c.tx.out = append(c.buffer(), p...)
		}
		return
	}
	if len(s.waiting) == 0 {
		if parts = c.frames(s, parts); len(parts) == 0 {
			return
		}
		c.tx.blocked = append(c.tx.blocked, s)
	}
	for _, p := range parts {
		if len(p) < copied {
			p = bytes.Clone(p)
		}
		s.waiting = append(s.waiting, p)
	}
}

// copied is up to which size a part that has to wait is copied.
const copied = 4 << 10

// frames puts as much of the parts into DATA frames as the windows allow, and returns what is left of
// them.
func (c *Conn) frames(s *Stream, parts [][]byte) (rest [][]byte) {
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	c.room(min(total, s.window, c.tx.window))
	for total > 0 {
		n := min(total, s.window, c.tx.window, maxFrame)
		if n <= 0 {
			return parts
		}
		s.window -= n
		c.tx.window -= n
		total -= n
		out := appendFrameHeader(c.buffer(), n, frameData, 0, s.id)
		for n > 0 {
			some := min(n, len(parts[0]))
			out = append(out, parts[0][:some]...)
			n -= some
			if parts[0] = parts[0][some:]; len(parts[0]) == 0 {
				parts = parts[1:]
			}
		}
		*c.tx.out = out
	}
	return nil
}

// resume sends what waited, now that a window has grown.
func (c *Conn) resume() {
	c.tx.blocked = slices.DeleteFunc(c.tx.blocked, func(s *Stream) bool {
		s.waiting = c.frames(s, s.waiting)
		return len(s.waiting) == 0
	})
	if len(c.tx.blocked) == 0 {
		c.tx.blocked = nil
	}
}

// windowUpdate takes WINDOW_UPDATE.
func (c *Conn) windowUpdate(stream uint32, payload []byte) error {
	if len(payload) != 4 {
		return violation(codeFrameSize, "WINDOW_UPDATE of %d bytes, expected 4", len(payload))
	}
	n := int(binary.BigEndian.Uint32(payload) &^ (1 << 31))
	if n == 0 {
		return violation(codeProtocol, "WINDOW_UPDATE by nothing")
	}
	window := &c.tx.window
	if stream != 0 {
		s := c.streams[stream]
		if s == nil {
			return nil // it has ended
		}
		window = &s.window
	}
	if *window += n; *window > maxWindow {
		return violation(codeFlowControl, "a window of %d bytes, expected %d at most", *window, maxWindow)
	}
	c.resume()
	return nil
}

// settings takes SETTINGS and acknowledges it.
func (c *Conn) settings(h frameHeader, payload []byte) error {
	switch {
	case h.stream != 0:
		return violation(codeProtocol, "SETTINGS on stream %d", h.stream)
	case len(payload)%6 != 0 || h.has(flagACK) && len(payload) > 0:
		return violation(codeFrameSize, "SETTINGS of %d bytes", len(payload))
	case h.has(flagACK):
		return nil
	}
	for ; len(payload) > 0; payload = payload[6:] {
		value := int(binary.BigEndian.Uint32(payload[2:]))
		switch binary.BigEndian.Uint16(payload) {
		case settingInitialWindowSize:
			if value > maxWindow {
				return violation(codeFlowControl, "an initial window of %d bytes", value)
			}
			for _, s := range c.streams {
				s.window += value - c.tx.initial // which may become negative
			}
			c.tx.initial = value
		case settingMaxFrameSize:
			if value < maxFrame || value >= 1<<24 {
				return violation(codeProtocol, "a greatest frame size of %d", value)
			}
			// Short frames suit what little is sent.
		}
	}
	*c.tx.out = appendFrameHeader(c.buffer(), 0, frameSettings, flagACK, 0)
	c.resume()
	return nil
}
