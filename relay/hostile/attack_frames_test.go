package hostile

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// frames are attacks below gRPC: connections, and HTTP/2 frame by frame.
var frames = []attack{
	{name: "half-open connections", run: halfOpen, waits: true},
	{name: "slowloris", run: slowloris, waits: true},
	{name: "rapid reset", run: rapidReset},
	{name: "a flood of CONTINUATION", run: continuations},
	{name: "floods of control frames", run: controlFloods},
	{name: "garbage frames", run: garbage, waits: true},
	{name: "floods of headers", run: headerFloods},
	{name: "100 MB messages", run: hugeMessages},
	{name: "gzip bombs", run: gzipBombs},
	{name: "garbage for messages", run: garbageMessages},
	{name: "never reading", run: neverReading},
	{name: "reconnect storms", run: reconnects},
}

// halfOpen connects and says nothing.
func halfOpen(t *testing.T, s *stage) {
	var all []net.Conn
	for range size(200, 5000) {
		all = append(all, s.rawDial(t))
	}
	cutOff(t, all)
}

// slowloris says what has to be said a byte at a time.
func slowloris(t *testing.T, s *stage) {
	// The preface.
	var all []net.Conn
	for range size(50, 1000) {
		all = append(all, s.rawDial(t))
	}
	for i := range len(http2.ClientPreface) - 1 {
		for _, c := range all {
			_, _ = io.WriteString(c, http2.ClientPreface[i:i+1])
		}
	}
	cutOff(t, all)
	// The first message, a byte at a time: it has to be there within the time for the
	// first request.
	w := s.wire(t, false)
	id := w.open(deltaMethod)
	m := encode(hello("x", theKey, content.ClusterURL, "*"))
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m)))
	for _, b := range append(head, m...) {
		if w.outcome(id) != "" {
			break
		}
		w.body(id, []byte{b})
		<-time.After(firstRequest / 10)
	}
	w.refused(id, code(codes.DeadlineExceeded)+"no request arrived within the first-request timeout")
	w.close()
	// Streams that say nothing.
	w = s.wire(t, false)
	var last uint32
	for range size(200, 5000) {
		last = w.open(sotwMethod)
	}
	w.refused(last, code(codes.DeadlineExceeded)+"no request arrived within the first-request timeout", code(codes.ResourceExhausted), "REFUSED_STREAM")
	w.close()
}

// rapidReset opens streams and resets them at once (CVE-2023-44487).
func rapidReset(t *testing.T, s *stage) {
	w := s.wire(t, false)
	m := encode(hello("x", theKey, content.ClusterURL, "*"))
	for range size(5_000, 200_000) {
		id := w.open(deltaMethod)
		w.message(id, false, m)
		if w.send(func(f *http2.Framer) error { return f.WriteRSTStream(id, http2.ErrCodeCancel) }) != nil {
			break
		}
	}
	w.roundTrip()
	w.close()
}

// continuations sends a header block that does not end.
func continuations(t *testing.T, s *stage) {
	w := s.wire(t, false)
	_ = w.send(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: w.headers(deltaMethod)})
	})
	piece := make([]byte, 0, 16<<10)
	for len(piece) < 15<<10 {
		w.block.Reset()
		piece = append(piece, w.headers("", "x-fill", strings.Repeat("f", 1000))...)
	}
	sent := 0
	for range size(4_000, 20_000) {
		if w.send(func(f *http2.Framer) error { return f.WriteContinuation(1, false, piece) }) != nil {
			break
		}
		sent++
	}
	w.closed(fmt.Sprintf("after %d CONTINUATION frames", sent))
	w.close()
}

// controlFloods sends frames that cost the sender next to nothing.
func controlFloods(t *testing.T, s *stage) {
	n := size(20_000, 1_000_000)
	for _, flood := range []struct {
		name   string
		frame  func(*http2.Framer) error
		closed bool
	}{
		{"PING", func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) }, true},
		{"SETTINGS", func(f *http2.Framer) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535})
		}, false},
		{"PRIORITY", func(f *http2.Framer) error { return f.WritePriority(1, http2.PriorityParam{StreamDep: 3}) }, false},
		{"WINDOW_UPDATE", func(f *http2.Framer) error { return f.WriteWindowUpdate(1, 1) }, false},
		{"empty DATA", func(f *http2.Framer) error { return f.WriteData(1, false, nil) }, false},
		{"an unknown frame", func(f *http2.Framer) error { return f.WriteRawFrame(0xfa, 0, 1, []byte("x")) }, false},
		{"RST_STREAM", func(f *http2.Framer) error { return f.WriteRSTStream(1, http2.ErrCodeCancel) }, false},
	} {
		w := s.wire(t, false)
		id := w.open(deltaMethod)
		w.message(id, false, encode(hello("x", theKey, content.ClusterURL, "*")))
		for range n {
			if w.send(flood.frame) != nil {
				break
			}
		}
		if flood.closed {
			w.refused(id, "ENHANCE_YOUR_CALM")
		} else {
			w.roundTrip()
		}
		w.close()
	}
}

// garbage sends what is no HTTP/2, or breaks its rules.
func garbage(t *testing.T, s *stage) {
	noise := make([]byte, 4096)
	_, _ = rand.Read(noise)
	for _, begin := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", http2.ClientPreface} {
		c := s.rawDial(t)
		_, _ = io.WriteString(c, begin)
		_, _ = c.Write(noise)
		_ = c.SetReadDeadline(time.Now().Add(xdstest.Patience))
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("after garbage behind %q the connection is still open", begin)
		}
		_ = c.Close()
	}
	for _, bad := range []struct {
		name string
		send func(w *wire)
	}{
		{"DATA of stream 0", func(w *wire) {
			_ = w.send(func(f *http2.Framer) error { return f.WriteRawFrame(http2.FrameData, 0, 0, []byte("x")) })
		}},
		{"HEADERS of an even stream", func(w *wire) {
			_ = w.send(func(f *http2.Framer) error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2, BlockFragment: w.headers(deltaMethod), EndHeaders: true})
			})
		}},
		{"headers that cannot be decompressed", func(w *wire) {
			_ = w.send(func(f *http2.Framer) error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
			})
		}},
		{"CONTINUATION without HEADERS", func(w *wire) {
			_ = w.send(func(f *http2.Framer) error { return f.WriteContinuation(1, true, []byte("x")) })
		}},
		{"a SETTINGS frame of odd length", func(w *wire) {
			_ = w.send(func(f *http2.Framer) error { return f.WriteRawFrame(http2.FrameSettings, 0, 0, []byte("xxxxx")) })
		}},
		{"a window that overflows", func(w *wire) {
			id := w.open(deltaMethod)
			for range 3 {
				_ = w.send(func(f *http2.Framer) error { return f.WriteWindowUpdate(id, 1<<31-1) })
				_ = w.send(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1<<31-1) })
			}
		}},
		{"more data than the window", func(w *wire) {
			id := w.open(deltaMethod)
			for range 64 {
				w.body(id, make([]byte, 16<<10))
			}
		}},
		{"a frame longer than allowed", func(w *wire) {
			_ = w.send(func(f *http2.Framer) error { return f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<17)) })
		}},
	} {
		w := s.wire(t, false)
		bad.send(w)
		xdstest.Eventually(t, bad.name+" to be refused", func() bool { return w.outcome(1) != "" || w.outcome(2) != "" || !w.roundTrip() })
		w.close()
	}
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

// headerFloods sends large headers, and many.
func headerFloods(t *testing.T, s *stage) {
	var many []string
	for i := range 5_000 {
		many = append(many, fmt.Sprintf("x-%d", i), "v")
	}
	for _, headers := range [][]string{{"x-large", strings.Repeat("h", 1<<20)}, many} {
		w := s.wire(t, false)
		for range size(20, 200) {
			block := append([]byte(nil), w.headers(deltaMethod, headers...)...)
			id := w.next
			w.next += 2
			err := w.send(func(f *http2.Framer) error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:min(len(block), 16<<10)], EndHeaders: len(block) <= 16<<10})
			})
			for at := 16 << 10; at < len(block) && err == nil; at += 16 << 10 {
				end := min(len(block), at+16<<10)
				err = w.send(func(f *http2.Framer) error { return f.WriteContinuation(id, end == len(block), block[at:end]) })
			}
			if err != nil {
				break
			}
		}
		w.refused(1, "FRAME_SIZE_ERROR", "goaway", "closed", code(codes.ResourceExhausted))
		w.close()
	}
}

// hugeMessages announces messages that are larger than allowed, and sends some of it.
func hugeMessages(t *testing.T, s *stage) {
	w := s.wire(t, false)
	for _, announced := range []uint32{100 << 20, 1<<32 - 1, maxReceive + 1} {
		id := w.open(deltaMethod)
		w.body(id, append(binary.BigEndian.AppendUint32([]byte{0}, announced), make([]byte, 1000)...))
		w.refused(id, code(codes.ResourceExhausted)+"the request is larger than max")
	}
	// As later requests of a stream that has begun well.
	id := w.open(sotwMethod)
	w.message(id, false, encode(hello("x", theKey, content.ClusterURL)))
	w.body(id, binary.BigEndian.AppendUint32([]byte{0}, 100<<20))
	w.refused(id, code(codes.ResourceExhausted)+"the request is larger than max", code(codes.InvalidArgument))
	w.close()
	// All of it, over real gRPC.
	c := open(t, s.dial(t), deltaMethod)
	_ = c.send(make([]byte, size(10<<20, 100<<20)))
	c.refused(t, codes.ResourceExhausted, "larger than max", fmt.Sprint(maxReceive))
}

// gzipBombs sends little that inflates to very much.
func gzipBombs(t *testing.T, s *stage) {
	bomb := gzipOf(t, size[int64](64<<20, 4<<30))
	w := s.wire(t, false)
	for range size(2, 20) {
		id := w.open(deltaMethod, "grpc-encoding", "gzip")
		if len(bomb) > 48<<10 { // beyond the window of a message
			bomb = bomb[:48<<10]
		}
		w.message(id, true, bomb)
		w.refused(id, code(codes.Unimplemented))
	}
	w.close()
}

// garbageMessages sends what is no discovery request.
func garbageMessages(t *testing.T, s *stage) {
	cc := s.dial(t)
	noise := make([]byte, 1000)
	for i := range size(50, 2000) {
		_, _ = rand.Read(noise)
		noise[0] = 0xff // no field has that tag
		c := open(t, cc, []string{deltaMethod, sotwMethod}[i%2])
		_ = c.send(append([]byte(nil), noise...))
		c.refused(t, codes.InvalidArgument, "malformed")
	}
	// In the middle of a stream.
	c := open(t, cc, deltaMethod)
	_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
	_ = c.send(append([]byte(nil), noise...))
	c.refused(t, codes.InvalidArgument, "malformed")
}

// neverReading asks for everything and takes nothing: with a window of zero, and with
// a socket that nobody reads.
func neverReading(t *testing.T, s *stage) {
	m := encode(hello("x", theKey, content.ClusterURL, "*"))
	var all []*wire
	for range size(10, 200) {
		for _, reads := range []silent{true, false} {
			w := s.wire(t, reads, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			for range 10 {
				w.message(w.open(deltaMethod), false, m)
			}
			all = append(all, w)
		}
	}
	changes := s.changes.Load()
	xdstest.Eventually(t, "some changes", func() bool { return s.changes.Load() > changes+5 || t.Failed() })
	for _, w := range all {
		_ = w.conn.Close()
	}
}

// reconnects comes and goes as fast as it can.
func reconnects(t *testing.T, s *stage) {
	m := encode(hello("x", theKey, content.ClusterURL, "*"))
	for i := range size(300, 10_000) {
		w := s.wire(t, true)
		w.message(w.open(deltaMethod), false, m)
		if tcp, ok := w.conn.(*net.TCPConn); ok && i%3 > 0 { // with a reset
			_ = tcp.SetLinger(0)
		}
		_ = w.conn.Close()
	}
}
