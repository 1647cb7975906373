package h2

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// wire writes what a server says.
type wire struct {
	bytes.Buffer
	*http2.Framer
}

func newWire() *wire {
	w := &wire{}
	w.Framer = http2.NewFramer(&w.Buffer, nil)
	w.AllowIllegalWrites = true
	return w
}

// fields encodes headers as a server does that heeds our table size of 0.
func fields(pairs ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSizeLimit(0)
	for i := 0; i < len(pairs); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}) // a buffer takes everything
	}
	return b.Bytes()
}

func (w *wire) headers(stream uint32, end bool, pairs ...string) {
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: fields(pairs...), EndHeaders: true, EndStream: end})
}

// begin is a good beginning of a response.
func (w *wire) begin(stream uint32) {
	w.headers(stream, false, ":status", "200", "content-type", "application/grpc")
}

// message is a gRPC message with its prefix.
func message(flag byte, m string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(m))), m...)
}

// offline is a connection whose frames come from a test.
type offline struct {
	*Conn
	left   []byte
	events []string
}

func newOffline(streams int) *offline {
	cfg := &Config{MaxMessage: 1 << 16}
	_ = cfg.complete() // the rest is right
	o := &offline{Conn: newConn(nil, cfg)}
	o.rx.greeted = true
	for range streams {
		_, _ = o.Open(&Call{block: []byte{0}}, o) // nothing is away
	}
	o.written()
	return o
}

func (o *offline) Message(s *Stream, m Message) {
	o.events = append(o.events, fmt.Sprintf("%d: %q", s.id, m.AppendFrom(nil, 0)))
}

func (o *offline) End(s *Stream, st Status) {
	o.events = append(o.events, fmt.Sprintf("%d: end %v", s.id, st))
}

// take takes a piece of what the server says.
func (o *offline) take(b []byte) error {
	rest, err := o.consume(append(o.left, b...))
	o.left = bytes.Clone(rest)
	return err
}

// written returns what would have been sent.
func (o *offline) written() []byte {
	if o.tx.out == nil {
		return nil
	}
	b := *o.tx.out
	o.tx.out = nil
	return b
}

// TestStreamBreaches holds that what breaks the rules of one stream ends that
// stream, for the right reason, and no other.
func TestStreamBreaches(t *testing.T) {
	tests := []struct {
		name string
		want string
		code codes.Code
		do   func(w *wire)
	}{
		{"data first", "ahead of the response headers", codes.Internal, func(w *wire) { _ = w.WriteData(1, false, message(0, "x")) }},
		{"no trailers", "ended without trailers", codes.Internal, func(w *wire) {
			w.begin(1)
			_ = w.WriteData(1, true, message(0, "x"))
		}},
		{"headers twice", "second set of headers", codes.Internal, func(w *wire) {
			w.begin(1)
			w.begin(1)
		}},
		{"a message cut off", "in the middle of a message, with OK", codes.Internal, func(w *wire) {
			w.begin(1)
			_ = w.WriteData(1, false, message(0, "xyz")[:6])
			w.headers(1, true, "grpc-status", "0")
		}},
		{"an unknown flag", "flag 7", codes.Internal, func(w *wire) {
			w.begin(1)
			_ = w.WriteData(1, false, message(7, "x"))
		}},
		{"compressed without an encoding", "without a grpc-encoding", codes.Internal, func(w *wire) {
			w.begin(1)
			_ = w.WriteData(1, false, message(1, "x"))
		}},
		{"no gzip in it", "compressed message", codes.Internal, func(w *wire) {
			w.headers(1, false, ":status", "200", "content-type", "application/grpc", "grpc-encoding", "gzip")
			_ = w.WriteData(1, false, message(1, "x"))
		}},
		{"an encoding that was not offered", `grpc-encoding "br"`, codes.Internal, func(w *wire) {
			w.headers(1, false, ":status", "200", "content-type", "application/grpc", "grpc-encoding", "br")
		}},
		{"another service", `HTTP status "404"`, codes.Unimplemented, func(w *wire) { w.headers(1, false, ":status", "404", "content-type", "text/html") }},
		{"a proxy without a server", `HTTP status "503"`, codes.Unavailable, func(w *wire) { w.headers(1, true, ":status", "503") }},
		{"a status that is none", "is no number", codes.Unknown, func(w *wire) { w.headers(1, true, "grpc-status", "ok") }},
		{"a reset", "with code 8", codes.Canceled, func(w *wire) { _ = w.WriteRSTStream(1, http2.ErrCodeCancel) }},
		{"refused", "with code 7", codes.Unavailable, func(w *wire) { _ = w.WriteRSTStream(1, http2.ErrCodeRefusedStream) }},
		{"too large", "a message of 65537 bytes", codes.ResourceExhausted, func(w *wire) {
			w.begin(1)
			_ = w.WriteData(1, false, []byte{0, 0, 1, 0, 1})
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o, w := newOffline(2), newWire()
			test.do(w)
			w.begin(3)
			_ = w.WriteData(3, false, message(0, "well"))
			if err := o.take(w.Bytes()); err != nil {
				t.Fatal(err)
			}
			last := o.events[len(o.events)-1]
			if i := slices.IndexFunc(o.events, func(e string) bool { return strings.HasPrefix(e, "1: end") }); i < 0 ||
				!strings.Contains(o.events[i], test.want) || !strings.Contains(o.events[i], test.code.String()+": ") {
				t.Errorf("saw %q, expected the end of stream 1 with %v and %q", o.events, test.code, test.want)
			}
			if last != `3: "well"` || o.Streams() != 1 {
				t.Errorf("saw %q, expected that the other stream goes on", o.events)
			}
		})
	}
}

// TestConnectionBreaches holds that what breaks the rules of HTTP/2 ends the
// connection, for the right reason.
func TestConnectionBreaches(t *testing.T) {
	tests := []struct {
		name string
		want string
		code uint32
		do   func(w *wire)
	}{
		{"a long frame", "a frame of 16385 bytes", codeFrameSize, func(w *wire) { _ = w.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 16385)) }},
		{"data of no stream", "stream 0", codeProtocol, func(w *wire) { _ = w.WriteRawFrame(http2.FrameData, 0, 0, []byte("x")) }},
		{"data of a stream to come", "stream 9", codeProtocol, func(w *wire) { _ = w.WriteData(9, false, []byte("x")) }},
		{"headers of a stream to come", "stream 9", codeProtocol, func(w *wire) { w.begin(9) }},
		{"more data than the window", "more than the window", codeFlowControl, func(w *wire) {
			w.begin(1)
			_ = w.WriteData(1, false, make([]byte, maxFrame))
		}},
		{"padding beyond the frame", "9 bytes of padding", codeProtocol, func(w *wire) {
			_ = w.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, []byte{9, 1, 2})
		}},
		{"padding without a length", "without a length", codeFrameSize, func(w *wire) {
			_ = w.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, nil)
		}},
		{"a push", "PUSH_PROMISE", codeProtocol, func(w *wire) { _ = w.WriteRawFrame(http2.FramePushPromise, 0, 1, make([]byte, 4)) }},
		{"settings of a stream", "SETTINGS on stream 1", codeProtocol, func(w *wire) { _ = w.WriteRawFrame(http2.FrameSettings, 0, 1, nil) }},
		{"half a setting", "SETTINGS of 7 bytes", codeFrameSize, func(w *wire) { _ = w.WriteRawFrame(http2.FrameSettings, 0, 0, make([]byte, 7)) }},
		{"an initial window out of range", "initial window", codeFlowControl, func(w *wire) {
			_ = w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31})
		}},
		{"a frame size out of range", "greatest frame size of 5", codeProtocol, func(w *wire) {
			_ = w.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 5})
		}},
		{"a short ping", "PING of 3 bytes", codeFrameSize, func(w *wire) { _ = w.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, 3)) }},
		{"a short reset", "RST_STREAM of 3 bytes", codeFrameSize, func(w *wire) { _ = w.WriteRawFrame(http2.FrameRSTStream, 0, 1, make([]byte, 3)) }},
		{"a short goodbye", "GOAWAY of 7 bytes", codeFrameSize, func(w *wire) { _ = w.WriteRawFrame(http2.FrameGoAway, 0, 0, make([]byte, 7)) }},
		{"a window by nothing", "by nothing", codeProtocol, func(w *wire) { _ = w.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 4)) }},
		{"a short window", "WINDOW_UPDATE of 1 bytes", codeFrameSize, func(w *wire) { _ = w.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 1)) }},
		{"a window too large", "a window of 2147549182", codeFlowControl, func(w *wire) {
			_ = w.WriteWindowUpdate(0, maxWindow)
		}},
		{"continuation of nothing", "without HEADERS", codeProtocol, func(w *wire) { _ = w.WriteContinuation(1, true, nil) }},
		{"headers not continued", "in the middle of a header block", codeProtocol, func(w *wire) {
			_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields(":status", "200")})
			_ = w.WritePing(false, [8]byte{})
		}},
		{"headers without end", "more than 65536 bytes", codeProtocol, func(w *wire) {
			_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields(":status", "200")})
			for range 5 {
				_ = w.WriteContinuation(1, false, make([]byte, maxFrame))
			}
		}},
		{"headers that use a table", "header block", codeCompression, func(w *wire) {
			_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x80 | 62}, EndHeaders: true})
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o, w := newOffline(1), newWire()
			o.streams[1].left = maxFrame - 1
			test.do(w)
			err := o.take(w.Bytes())
			breach, ok := errors.AsType[*ProtocolError](err)
			if !ok || breach.code != test.code || !strings.Contains(breach.text, test.want) {
				t.Errorf("got %v, expected a breach with code %d and %q", err, test.code, test.want)
			}
		})
	}
}

// TestRoom holds that the server is given new room as it uses it up, also for
// streams that are gone, and that what waits is sent when there is room.
func TestRoom(t *testing.T) {
	o, w := newOffline(2), newWire()
	w.begin(1)
	w.begin(3)
	o.streams[3].Cancel()
	o.written()
	chunk := make([]byte, maxFrame)
	half := o.cfg.StreamWindow / 2 / maxFrame
	for i := range half {
		copy(chunk, message(0, string(make([]byte, maxFrame-prefixLen))))
		_ = w.WriteData(1, false, chunk)
		if i < half/2+1 {
			_ = w.WriteData(3, false, chunk) // of nobody, and yet of the connection
		}
	}
	if err := o.take(w.Bytes()); err != nil {
		t.Fatal(err)
	}
	want := appendWindowUpdate(nil, 0, o.cfg.ConnWindow/2)
	want = appendWindowUpdate(want, 1, o.cfg.StreamWindow/2)
	if got := o.written(); !bytes.Equal(got, want) {
		t.Errorf("sent %x, expected room for the connection and for stream 1: %x", got, want)
	}

	// What we send waits for room, in order.
	s := o.streams[1]
	s.Send(make([]byte, 100_000))
	s.Send([]byte("last"))
	sent := len(o.written())
	w = newWire()
	_ = w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	_ = w.WriteWindowUpdate(0, 10_000)
	_ = w.WriteWindowUpdate(0, 1<<20)
	if err := o.take(w.Bytes()); err != nil {
		t.Fatal(err)
	}
	rest := o.written()
	if sent > defaultWindow+5*frameHeaderLen || !bytes.HasSuffix(rest, []byte("last")) || len(o.tx.blocked) != 0 {
		t.Errorf("%d bytes were sent ahead, %d streams wait, the end is %q", sent, len(o.tx.blocked), rest[len(rest)-4:])
	}
}

// TestPartsShareFrames holds that a message in parts is one frame, if it fits.
func TestPartsShareFrames(t *testing.T) {
	o := newOffline(1)
	_ = o.written()
	o.streams[1].Send([]byte("first"), nil, []byte("last"))
	want := append(appendFrameHeader(nil, 14, frameData, 0, 1), "\x00\x00\x00\x00\x09firstlast"...)
	if got := o.written(); !bytes.Equal(got, want) {
		t.Errorf("sent %x, expected %x", got, want)
	}
	o.streams[1].Send(make([]byte, maxFrame), []byte("last"))
	if got, want := len(o.written()), maxFrame+prefixLen+4+2*frameHeaderLen; got != want {
		t.Errorf("sent %d bytes, expected %d: a full frame and the rest", got, want)
	}
}

// TestPing holds that pings are answered and settings acknowledged.
func TestPing(t *testing.T) {
	o, w := newOffline(0), newWire()
	_ = w.WriteSettings()
	_ = w.WriteSettingsAck()
	_ = w.WritePing(false, [8]byte{1, 2, 3})
	_ = w.WritePing(true, [8]byte{1, 2, 3})
	_ = w.WriteRawFrame(0x77, 0xff, 5, []byte("unknown"))
	if err := o.take(w.Bytes()); err != nil {
		t.Fatal(err)
	}
	want := newWire()
	_ = want.WriteSettingsAck()
	_ = want.WritePing(true, [8]byte{1, 2, 3})
	if got := o.written(); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("sent %x, expected %x", got, want.Bytes())
	}
}

// stream returns which stream an event is of.
func stream(event string) string {
	id, _, _ := strings.Cut(event, ":")
	return id
}

// FuzzFrames holds that no bytes of a server do harm, and that it does not
// matter in which pieces they come.
func FuzzFrames(f *testing.F) {
	w := newWire()
	_ = w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100_000})
	w.begin(1)
	_ = w.WriteData(1, false, append(message(0, "hello"), message(0, "")...))
	_ = w.WriteDataPadded(1, false, message(0, "padded"), make([]byte, 7))
	_ = w.WritePing(false, [8]byte{1})
	_ = w.WriteWindowUpdate(1, 77)
	block := fields(":status", "200", "content-type", "application/grpc")
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block[:3], PadLength: 4, Priority: http2.PriorityParam{Weight: 3}})
	_ = w.WriteContinuation(3, true, block[3:])
	_ = w.WriteRSTStream(3, http2.ErrCodeCancel)
	_ = w.WriteGoAway(1, http2.ErrCodeNo, []byte("bye"))
	w.headers(1, true, "grpc-status", "14", "grpc-message", "100%25 g%zzone%")
	f.Add(w.Bytes(), uint16(5))
	f.Add(w.Bytes()[:30], uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, step uint16) {
		whole, pieces := newOffline(2), newOffline(2)
		want := whole.take(b)
		var got error
		size := max(int(step)%100, 1)
		for part := range slices.Chunk(b, size) {
			if got = pieces.take(part); got != nil {
				break
			}
		}
		for _, o := range []*offline{whole, pieces} { // what ends several streams ends them in any order
			slices.SortStableFunc(o.events, func(a, b string) int { return cmp.Compare(stream(a), stream(b)) })
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || !slices.Equal(whole.events, pieces.events) || !bytes.Equal(whole.written(), pieces.written()) {
			t.Fatalf("at once: %v %q\nin pieces of %d: %v %q", want, whole.events, size, got, pieces.events)
		}
		for _, o := range []*offline{whole, pieces} {
			o.in.drop()
		}
	})
}
