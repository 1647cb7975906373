package h2

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
)

// Receiver is told what comes on a stream, on the goroutine of [Conn.Serve].
type Receiver interface {
	// Message takes a message.
	Message(s *Stream, m Message)
	// End is told that the stream has ended, unless [Stream.Cancel] ended it.
	// It is the last call.
	End(s *Stream, st Status)
}

// Stream is one call. It belongs to the goroutine that serves its connection.
type Stream struct {
	conn *Conn
	recv Receiver
	id   uint32

	ended   bool // nothing is delivered any more
	started bool // the response headers were there
	gzip    bool // the server's grpc-encoding

	// What the server may still send, and what it is owed.
	left, owed int

	// What the server takes.
	window  int
	waiting [][]byte // what has to wait for the window

	// The message that is being received.
	head  [prefixLen]byte
	headN int
	want  int // its length; meaningful once the head is there
	part  partial
}

// prefixLen is the length of what every gRPC message begins with: a flag for
// compression and the length.
const prefixLen = 5

var errTaken = errors.New("h2: a plain connection has one stream")

// Open begins a stream. What is sent leaves when the goroutine of the
// connection waits next.
func (c *Conn) Open(call *Call, recv Receiver) (*Stream, error) {
	if c.away != nil {
		return nil, c.away
	}
	if c.nextID > maxWindow {
		return nil, fmt.Errorf("h2: the connection has used up its stream ids")
	}
	s := &Stream{conn: c, recv: recv, id: c.nextID, left: c.cfg.StreamWindow, window: c.tx.initial}
	c.nextID += 2
	c.streams[s.id] = s
	if c.cfg.Plain {
		c.away = errTaken
		return s, nil
	}
	*c.tx.out = append(appendFrameHeader(c.buffer(), len(call.block), frameHeaders, flagEndHeaders, s.id), call.block...)
	return s, nil
}

// Send sends a message, given in parts, as soon as the server's windows allow.
// Parts of less than 4 KiB may be used again when it returns; larger ones must
// never change, so that many clients can be sending the same.
func (s *Stream) Send(parts ...[]byte) {
	if s.ended {
		return
	}
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	var prefix [prefixLen]byte
	binary.BigEndian.PutUint32(prefix[1:], uint32(n))
	all := make([][]byte, 0, 8)
	s.conn.send(s, append(append(all, prefix[:]), parts...))
}

// Cancel ends the stream. The receiver hears no more of it.
func (s *Stream) Cancel() {
	if s.ended {
		return
	}
	s.close()
	s.conn.reset(s, codeCancel)
}

// reset tells the server that a stream has ended.
func (c *Conn) reset(s *Stream, code uint32) {
	delete(c.streams, s.id)
	if !c.cfg.Plain {
		*c.tx.out = appendRST(c.buffer(), s.id, code)
	}
}

// finish ends the stream for the receiver.
func (s *Stream) finish(st Status) {
	if s.ended {
		return
	}
	s.close()
	s.recv.End(s, st)
}

func (s *Stream) close() {
	s.ended, s.waiting = true, nil
	s.part.drop()
}

// breach ends a stream on which the server broke the rules.
func (s *Stream) breach(format string, args ...any) {
	if !s.ended {
		s.over(codeCancel, Status{Code: codes.Internal, Breach: true, Message: fmt.Sprintf(format, args...)})
	}
}

// over ends the stream in both directions.
func (s *Stream) over(code uint32, st Status) {
	s.conn.reset(s, code)
	s.finish(st)
}

// headers takes response headers or trailers.
func (s *Stream) headers(block []byte, end bool) error {
	a, err := decodeHeaders(block)
	switch {
	case err != nil:
		return err
	case end:
		st := a.end()
		if s.inMessage() {
			st = Status{Code: codes.Internal, Breach: true, Message: "the stream ended in the middle of a message, with " + st.String()}
		}
		s.over(codeNo, st)
	case s.started:
		s.breach("a second set of headers that does not end the stream")
	case len(a.httpStatus) == 3 && a.httpStatus[0] == '1': // informational
	case !a.isGRPC():
		st := a.withoutStatus()
		s.over(codeCancel, st)
	case a.encoding != "" && a.encoding != "identity" && a.encoding != "gzip":
		s.breach("grpc-encoding %q, which was not offered", a.encoding)
	default:
		s.started, s.gzip = true, a.encoding == "gzip"
	}
	return nil
}

func (s *Stream) inMessage() bool { return s.headN > 0 }

// data takes a piece of the stream's messages.
func (s *Stream) data(b []byte) {
	for len(b) > 0 && !s.ended {
		if s.headN < prefixLen {
			n := copy(s.head[s.headN:], b)
			s.headN += n
			b = b[n:]
			if s.headN < prefixLen {
				return
			}
			s.want = int(binary.BigEndian.Uint32(s.head[1:]))
			if s.want > s.conn.cfg.MaxMessage {
				s.over(codeCancel, Status{
					Code:    codes.ResourceExhausted,
					Message: fmt.Sprintf("a message of %d bytes, expected %d at most", s.want, s.conn.cfg.MaxMessage),
				})
				return
			}
			if s.want > 0 && len(b) == 0 {
				return
			}
		}
		if s.part.size() == 0 && len(b) >= s.want { // all there: no need to copy
			m := b[:s.want]
			b, s.headN = b[s.want:], 0
			s.deliver(Message{Own: m})
			continue
		}
		n := min(len(b), s.want-s.part.size())
		s.part.add(s.conn.cfg.share, b[:n], s.want)
		b = b[n:]
		if s.part.size() < s.want {
			return
		}
		part := s.part
		s.part, s.headN = partial{}, 0
		m := Message{Chain: part.chain, Shared: part.at}
		if part.own != nil {
			m.Own = *part.own
		}
		s.deliver(m)
		if part.chain != nil && part.chain.depth > deepest {
			s.conn.cfg.share.lay(part.chain.key, m.AppendFrom(make([]byte, 0, m.Len()), 0))
		}
		part.drop()
	}
}

// deliver hands a message to the receiver.
func (s *Stream) deliver(m Message) {
	switch s.head[0] {
	case 0:
		s.recv.Message(s, m)
	case 1:
		if !s.gzip {
			s.breach("a compressed message without a grpc-encoding")
			return
		}
		packed, buf := m.whole()
		plain, err := s.conn.cfg.inflater.gunzip(packed, s.conn.cfg.MaxMessage)
		if buf != nil {
			giveBuffer(buf)
		}
		if err != nil {
			s.breach("compressed message: %v", err)
			return
		}
		s.recv.Message(s, Message{Own: *plain})
		giveBuffer(plain)
	default:
		s.breach("a message with the flag %d, expected 0 or 1", s.head[0])
	}
}
