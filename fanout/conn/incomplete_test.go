package conn

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// rig is a listener with one connection: a client that writes frames, and a server that records
// what it reads.
type rig struct {
	t      *testing.T
	conn   *Conn
	far    net.Conn // the client's end
	client *http2.Framer
	faults []Fault

	server   chan http2.Frame // frames that the server has read; closed at the end
	toClient chan http2.Frame // frames that the client has read; closed at the end
}

const (
	first   = 2 * time.Second
	request = 10 * time.Second
	size    = 4000
	streams = 20
)

func newRig(t *testing.T) *rig {
	t.Helper()
	near, far := net.Pipe()
	q := make(queue, 1)
	q <- near
	r := &rig{t: t, far: far, server: make(chan http2.Frame, 1000), toClient: make(chan http2.Frame, 1000)}
	d := New(q, Config{
		Bounds: func() Bounds { return Bounds{First: first, Request: request, Size: size, Streams: streams} },
		Faulty: func(_ string, f Fault) string { r.faults = append(r.faults, f); return "why" },
	})
	c, err := d.Accept()
	if err != nil {
		t.Fatal(err)
	}
	r.conn = c.(*Conn)
	t.Cleanup(func() { _ = c.Close(); _ = far.Close() })
	go note(c, true, r.server)
	go note(far, false, r.toClient)
	_, _ = io.WriteString(far, http2.ClientPreface)
	r.client = http2.NewFramer(far, nil)
	r.client.AllowIllegalWrites = true
	return r
}

// note records frames to the end.
func note(from io.Reader, preface bool, to chan http2.Frame) {
	defer close(to)
	if preface {
		_, _ = io.ReadFull(from, make([]byte, len(http2.ClientPreface)))
	}
	in := http2.NewFramer(nil, from)
	for {
		f, err := in.ReadFrame()
		if err != nil {
			return
		}
		to <- f
	}
}

// open opens a stream.
func (r *rig) open(id uint32) {
	r.t.Helper()
	if err := r.client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x82}, EndHeaders: true}); err != nil {
		r.t.Fatal(err)
	}
}

// data sends b in one frame.
func (r *rig) data(id uint32, b ...byte) {
	r.t.Helper()
	if err := r.client.WriteData(id, false, b); err != nil {
		r.t.Fatal(err)
	}
}

// of returns a message of n bytes.
func of(n int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(n)), make([]byte, n)...)
}

// resetsIn returns the streams that were reset in the frames so far.
func resetsIn(frames chan http2.Frame) (ids []uint32) {
	for {
		select {
		case f, ok := <-frames:
			if !ok {
				return ids
			}
			if r, ok := f.(*http2.RSTStreamFrame); ok {
				ids = append(ids, r.StreamID)
			}
		default:
			return ids
		}
	}
}

// ends holds which streams were reset within after, to the server and to the client.
func (r *rig) ends(after time.Duration, want ...uint32) {
	r.t.Helper()
	time.Sleep(after) //nolint:forbidigo // virtual time
	synctest.Wait()
	for who, frames := range map[string]chan http2.Frame{"server": r.server, "client": r.toClient} {
		got := resetsIn(frames)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			r.t.Errorf("the %s is told of the end of %d, expected %d", who, got, want)
		}
	}
}

// TestLateRequests: a stream ends if its first request, or a later one, is not complete in time.
// Streams between two requests, and streams that end by themselves, are not reset.
func TestLateRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(1) // sends no request
		r.open(3)
		r.data(3, of(100)[:50]...)
		r.open(5)
		r.data(5, of(100)...)
		r.open(7)
		for _, b := range of(20) {
			r.data(7, b)
		}
		r.open(9)
		_ = r.client.WriteRSTStream(9, http2.ErrCodeCancel)
		r.open(11)
		_ = r.client.WriteData(11, true, of(100)[:50])
		r.open(13)
		r.data(13, of(10)[:3]...)
		r.data(13, of(10)[3:]...)
		r.open(15)
		r.data(15, append(of(10), of(0)...)...)
		r.open(17)
		if err := r.client.WriteDataPadded(17, false, of(10), make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(first - time.Millisecond) //nolint:forbidigo // virtual time
		synctest.Wait()
		if got := resetsIn(r.server); !slices.Equal(got, []uint32{9}) { // the client reset this one
			t.Errorf("the server is told of the end of %d", got)
		}
		r.ends(2*time.Millisecond, 1, 3)
		r.ends(time.Hour, nil...)

		r.data(5, append(of(10), of(100)[:50]...)...)
		r.data(7, of(10)[:1]...)
		r.ends(request/2, nil...)
		r.data(5, 0)
		r.data(13, append(of(10), of(10)[:7]...)...)
		r.ends(request/2+time.Millisecond, 5, 7)
		r.data(13, append(of(10)[7:], of(10)[:9]...)...) // begins another message
		r.ends(request-time.Millisecond, nil...)
		r.ends(2*time.Millisecond, 13)
		if r.conn.watch != nil || r.conn.in.partial != nil || r.conn.in.size != 0 {
			t.Errorf("of connections without anything to wait for is kept: %v, %v", r.conn.in.partial, r.conn.watch)
		}
		want := []Fault{LateFirst, LateFirst, LateRequest, LateRequest, LateRequest}
		if !slices.Equal(r.faults, want) {
			t.Errorf("the faults were %v, expected %v", r.faults, want)
		}
	})
}

// TestServerEnds: no request is awaited on a stream that the server has ended.
func TestServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for id := uint32(1); id <= 5; id += 2 {
			r.open(id)
			r.data(id, of(100)[:50]...)
		}
		synctest.Wait()
		out := http2.NewFramer(r.conn, nil)
		_ = out.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}, EndHeaders: true, EndStream: true})
		_ = out.WriteData(3, true, nil)
		r.ends(first, 5)
	})
}

// TestTooMuch: incomplete requests take no more memory than the bound: the streams with the oldest
// ones end.
func TestTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for id := uint32(1); id <= 7; id += 2 {
			r.open(id)
			r.data(id, of(2000)[:1200]...)
			time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
		}
		r.ends(0, 1)
		r.data(3, of(2000)[1200:]...)
		r.data(9, of(2000)[:1600]...)
		r.ends(0, nil...)
		r.data(5, make([]byte, 600)...)
		r.ends(0, 5)
		if !slices.Equal(r.faults, []Fault{TooMuch, TooMuch}) {
			t.Errorf("the faults were %v", r.faults)
		}
	})
}

// TestSmallPieces: a request that arrives byte by byte takes more memory than its bytes, and ends
// long before its bytes reach the bound.
func TestSmallPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(1)
		for _, b := range of(size / 10) {
			r.data(1, b)
		}
		r.ends(0, 1)
	})
}

// TestNoStreams: data for streams that do not exist, one after the other, ends the connection;
// otherwise each would be remembered as incomplete.
func TestNoStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for id := uint32(1); id <= 2*streams+1; id += 2 {
			_ = r.client.WriteData(id, false, []byte{0})
		}
		synctest.Wait()
		if !slices.Equal(r.faults, []Fault{TooMany}) {
			t.Errorf("the faults were %v, expected one of too many", r.faults)
		}
		for f := range r.toClient {
			if g, ok := f.(*http2.GoAwayFrame); ok && g.ErrCode == http2.ErrCodeEnhanceYourCalm {
				return
			}
		}
		t.Error("the client was not told why")
	})
}

// TestEndsInTheMiddle: a stream ends although each read stops in the middle of a frame.
func TestEndsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open(1)
		ping := append([]byte{0, 0, 8, byte(http2.FramePing), 0, 0, 0, 0, 0}, make([]byte, 8)...)
		half := len(ping) / 2
		if _, err := r.far.Write(ping[:half]); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(first / 50) //nolint:forbidigo // virtual time
			if _, err := r.far.Write(append(bytes.Clone(ping[half:]), ping[:half]...)); err != nil {
				t.Fatal(err)
			}
		}
		r.ends(0, 1)
	})
}

// TestPieces: a request that is read in two pieces is complete with the second one, wherever it was
// split, even if the second piece looks like a request of its own.
func TestPieces(t *testing.T) {
	var b bytes.Buffer
	if err := http2.NewFramer(&b, nil).WriteData(1, false, append([]byte{0, 0, 0, 0, 15}, make([]byte, 15)...)); err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < b.Len(); cut++ {
		var in incoming
		in.take(b.Bytes()[:cut], time.Now)
		in.take(b.Bytes()[cut:], time.Now)
		if in.size != 0 || in.partial != nil || !in.whole() {
			t.Errorf("cut at %d: %+v", cut, in)
		}
	}
}

// TestLateFrames: a connection ends with the reason if a frame or a header block is not complete in
// time, even if pieces of it keep arriving.
func TestLateFrames(t *testing.T) {
	for name, tc := range map[string]struct{ begin, next []byte }{
		"a header": {[]byte{0, 0}, nil},
		"a frame":  {[]byte{0, 0, 100, byte(http2.FrameData), 0, 0, 0, 0, 1}, []byte{0}},
		"headers":  {[]byte{0, 0, 1, byte(http2.FrameHeaders), 0, 0, 0, 0, 1, 0x82}, []byte{0, 0, 1, byte(http2.FrameContinuation), 0, 0, 0, 0, 1, 0x82}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				began := time.Now()
				_, err := r.far.Write(tc.begin)
				for err == nil && time.Since(began) < 2*request {
					time.Sleep(request / 20) //nolint:forbidigo // virtual time
					_, err = r.far.Write(tc.next)
				}
				if at := time.Since(began); err == nil || at < request || at > request+request/10 {
					t.Errorf("the connection ended after %v with %v, expected %v", at, err, request)
				}
				away := 0
				for f := range r.toClient {
					if g, ok := f.(*http2.GoAwayFrame); ok && g.ErrCode == http2.ErrCodeEnhanceYourCalm && string(g.DebugData()) == "why" {
						away++
					}
				}
				if away != 1 || !slices.Equal(r.faults, []Fault{LateFrame}) {
					t.Errorf("%d GOAWAY, faults %v", away, r.faults)
				}
			})
		})
	}
}
