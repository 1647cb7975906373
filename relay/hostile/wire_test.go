package hostile

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"xdsrelay/relay/xdstest"
)

// wire is an HTTP/2 connection that sends what it is told to, sensible or not, and
// notes what comes back. Writes that fail are passed over: what the server said
// before tells why.
type wire struct {
	t    *testing.T
	conn net.Conn
	done chan struct{} // closed when the server has closed the connection

	// Owned by who sends.
	framer *http2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder
	next   uint32         // stream
	spent  map[uint32]int // bytes of data sent, by stream; of all at 0

	sending sync.Mutex // held while a frame is written

	mu sync.Mutex
	// Guarded by mu.
	goAway   string            // code and text of the server's GOAWAY
	statuses map[uint32]string // "CODE: message" of streams that ended in order
	resets   map[uint32]http2.ErrCode
	pongs    int
	data     int            // bytes of it
	granted  map[uint32]int // what windows have grown by; that of the connection at 0
}

// silent leaves a wire's reading side alone: the server's frames stay in the buffers.
type silent bool

// rawDial is a TCP connection that says nothing.
func (s *stage) rawDial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", s.XDS, xdstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// cutOff waits until the server has closed connections on which nothing came, or not
// enough, and closes them.
func cutOff(t *testing.T, all []net.Conn) {
	t.Helper()
	limit := time.Now().Add(xdstest.Patience)
	for i, c := range all {
		_ = c.SetReadDeadline(limit)
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Fatalf("connection %d of %d is still open", i, len(all))
		}
		_ = c.Close()
	}
}

// connect is a connection that HTTP/2 can be spoken on: with TLS, where there is TLS,
// which is tried until limit.
func (s *stage) connect(t *testing.T, limit time.Time) net.Conn {
	t.Helper()
	if s.bad == nil {
		return s.rawDial(t)
	}
	c := s.bad.Clone()
	c.NextProtos = []string{"h2"}
	for {
		over := tls.Client(s.rawDial(t), c)
		err := over.HandshakeContext(t.Context())
		if err == nil {
			return over
		}
		_ = over.Close()
		if time.Now().After(limit) { // a busy machine does not always shake hands in time
			t.Fatal(err)
		}
	}
}

// wire connects and shakes hands, with the given settings. One that reads connects until
// the server has answered a PING, which means that its time for handshakes is over: on a
// busy machine that may end before, also after the client's side of TLS is done.
func (s *stage) wire(t *testing.T, reads silent, settings ...http2.Setting) *wire {
	t.Helper()
	for limit := time.Now().Add(xdstest.Patience); ; {
		w := newWire(t, s.connect(t, limit), settings...)
		if reads {
			return w
		}
		go w.read()
		if w.roundTrip() {
			return w
		}
		w.close()
		if time.Now().After(limit) {
			t.Fatal("the server closes each connection before it has answered")
		}
	}
}

// newWire speaks HTTP/2 first on a connection, whatever the server makes of it.
func newWire(t *testing.T, conn net.Conn, settings ...http2.Setting) *wire {
	t.Helper()
	w := &wire{
		t: t, conn: conn, done: make(chan struct{}), next: 1,
		statuses: make(map[uint32]string), resets: make(map[uint32]http2.ErrCode),
		spent: make(map[uint32]int), granted: make(map[uint32]int),
	}
	w.framer = http2.NewFramer(w.conn, w.conn)
	w.framer.AllowIllegalWrites = true
	w.enc = hpack.NewEncoder(&w.block)
	_, _ = io.WriteString(w.conn, http2.ClientPreface)
	_ = w.send(func(f *http2.Framer) error { return f.WriteSettings(settings...) })
	return w
}

// close ends the connection, and waits for the end of the reading side.
func (w *wire) close() {
	_ = w.conn.Close()
	<-w.done
}

func (w *wire) send(write func(*http2.Framer) error) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	return write(w.framer)
}

// read notes what the server says, and answers as HTTP/2 demands.
func (w *wire) read() {
	defer close(w.done)
	in := http2.NewFramer(nil, w.conn)
	in.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	in.SetMaxReadFrameSize(1 << 20)
	for {
		f, err := in.ReadFrame()
		if err != nil {
			return
		}
		w.note(f)
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = w.send((*http2.Framer).WriteSettingsAck)
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = w.send(func(to *http2.Framer) error { return to.WritePing(true, f.Data) })
			}
		}
	}
}

func (w *wire) note(f http2.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := f.Header().StreamID
	switch f := f.(type) {
	case *http2.GoAwayFrame:
		w.goAway = fmt.Sprintf("%v: %s", f.ErrCode, f.DebugData())
	case *http2.RSTStreamFrame:
		w.resets[id] = f.ErrCode
	case *http2.PingFrame:
		w.pongs++
	case *http2.WindowUpdateFrame:
		w.granted[id] += int(f.Increment)
	case *http2.DataFrame:
		w.data += len(f.Data())
	case *http2.MetaHeadersFrame:
		code, message := "", ""
		for _, h := range f.Fields {
			switch h.Name {
			case "grpc-status":
				code = h.Value
			case "grpc-message":
				message = h.Value
			case ":status":
				if h.Value != "200" && code == "" {
					code = "HTTP " + h.Value
				}
			}
		}
		if code != "" {
			w.statuses[id] = code + ": " + message
		}
	}
}

// outcome is how a stream ended, "" if it did not: "CODE: message", the code of a
// reset, of the server's GOAWAY, or "closed".
func (w *wire) outcome(id uint32) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s, ok := w.statuses[id]; ok {
		return s
	}
	if r, ok := w.resets[id]; ok {
		return "reset " + r.String()
	}
	if w.goAway != "" {
		return "goaway " + w.goAway
	}
	select {
	case <-w.done:
		return "closed"
	default:
		return ""
	}
}

// refused waits until a stream has ended in one of the given ways, parts of its
// [wire.outcome].
func (w *wire) refused(id uint32, ways ...string) {
	w.t.Helper()
	var got string
	xdstest.Eventually(w.t, fmt.Sprintf("stream %d to end", id), func() bool { got = w.outcome(id); return got != "" })
	for _, way := range ways {
		if strings.Contains(got, way) {
			return
		}
	}
	w.t.Errorf("the stream ended with %q, expected one of %q", got, ways)
}

// closed waits until the server has closed the connection.
func (w *wire) closed(what string) {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(xdstest.Patience):
		w.t.Errorf("%s: the connection is still open", what)
	}
}

// roundTrip waits until the server has looked at everything that was sent before.
func (w *wire) roundTrip() bool {
	w.mu.Lock()
	before := w.pongs
	w.mu.Unlock()
	if w.send(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) }) != nil {
		return false
	}
	for {
		w.mu.Lock()
		answered := w.pongs > before
		w.mu.Unlock()
		if answered {
			return true
		}
		select {
		case <-w.done:
			return false
		case <-time.After(time.Millisecond):
		}
	}
}

// headers encodes the headers of a gRPC call, and more.
func (w *wire) headers(method string, more ...string) []byte {
	w.block.Reset()
	all := append([]string{
		":method", "POST", ":scheme", "http", ":path", method, ":authority", "node",
		"content-type", "application/grpc", "te", "trailers",
	}, more...)
	for i := 0; i < len(all); i += 2 {
		_ = w.enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
	}
	return w.block.Bytes()
}

// open begins a stream of a method.
func (w *wire) open(method string, more ...string) uint32 {
	id := w.next
	w.next += 2
	_ = w.send(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: w.headers(method, more...), EndHeaders: true})
	})
	return id
}

// message sends bytes as one gRPC message, in frames of at most 16 KiB, as fast as
// the server's windows of 64 KiB would allow a first piece of.
func (w *wire) message(id uint32, compressed bool, body []byte) {
	head := make([]byte, 5, 5+len(body))
	if compressed {
		head[0] = 1
	}
	binary.BigEndian.PutUint32(head[1:], uint32(len(body)))
	w.body(id, append(head, body...))
}

// body sends bytes as data.
func (w *wire) body(id uint32, b []byte) {
	for len(b) > 0 {
		n := min(len(b), 16<<10)
		if w.send(func(f *http2.Framer) error { return f.WriteData(id, false, b[:n]) }) != nil {
			return
		}
		w.spent[id] += n
		w.spent[0] += n
		b = b[n:]
	}
}

// bytes is how much data has come.
func (w *wire) bytes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data
}

// room is how much data may be sent on a stream.
func (w *wire) room(id uint32) int {
	const window = 1<<16 - 1 // at first
	w.mu.Lock()
	defer w.mu.Unlock()
	return window + min(w.granted[id]-w.spent[id], w.granted[0]-w.spent[0])
}

// flood sends bytes as data as fast as the server's windows allow, as long as the
// stream has not ended.
func (w *wire) flood(id uint32, b []byte) {
	for len(b) > 0 && w.outcome(id) == "" {
		n := min(len(b), 16<<10, w.room(id))
		if n <= 0 {
			<-time.After(time.Millisecond)
			continue
		}
		w.body(id, b[:n])
		b = b[n:]
	}
}

// code is a gRPC status code as it stands in a trailer.
func code[T ~uint32](c T) string { return strconv.Itoa(int(c)) + ": " }
