package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// halves are attacks by what is begun and not ended, while the connection is alive:
// pings are answered, and bytes come now and then.
var halves = []attack{
	{name: "half of a later request", run: halfRequests, waits: true},
	{name: "many large halves of requests", run: largeHalves, waits: true},
	{name: "headers that do not end", run: halfHeaders, waits: true},
	{name: "half of a frame", run: halfFrames, waits: true},
	{name: "data of streams that there are not", run: noStreams},
	{name: "requests in the smallest frames", run: smallFrames},
}

// begins opens a stream that begins well.
func (w *wire) begins() uint32 {
	before := w.bytes()
	_ = w.send(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1<<16) }) // to have room for it
	id := w.open(deltaMethod)
	w.message(id, false, encode(hello("x", theKey, content.ClusterURL, "*")))
	xdstest.Eventually(w.t, "an answer", func() bool { return w.bytes() > before })
	return id
}

// half is the beginning of a message of so many bytes.
func half(size int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), 1)
}

// halfRequests begins requests on streams that are in sync. Other streams of the same
// connection, of which there may be many behind a gateway, go on.
func halfRequests(t *testing.T, s *stage) {
	w := s.wire(t, false)
	good := w.begins()
	var bad []uint32
	for i := range size(20, 500) {
		id := w.begins()
		rest := half(maxReceive / 2)
		w.body(id, rest[:1+i%len(rest)])
		bad = append(bad, id)
	}
	for _, id := range bad {
		w.refused(id, "reset ENHANCE_YOUR_CALM")
	}
	if got := w.outcome(good); got != "" {
		t.Errorf("another stream of the connection ended with %q", got)
	}
	before := w.bytes()
	w.message(good, false, encode(hello("x", theKey, content.EndpointURL, content.Name(content.EndpointURL, 0, 0))))
	xdstest.Eventually(t, "the other stream to be answered", func() bool { return w.bytes() > before })
	// A byte now and then is no request either.
	id := w.begins()
	w.body(id, half(maxReceive/2))
	for w.outcome(id) == "" {
		w.body(id, []byte{1})
		<-time.After(request / 10)
	}
	w.refused(id, "reset ENHANCE_YOUR_CALM")
	w.close()
}

// largeHalves begins requests that are nearly as large as they may be, and leaves out
// the last byte of each. What the node keeps of them is bounded.
func largeHalves(t *testing.T, s *stage) {
	var wires []*wire
	body := make([]byte, maxReceive-1)
	for range size(2, 5) {
		w := s.wire(t, false)
		wires = append(wires, w)
		for range size(12, 60) {
			id := w.begins()
			w.body(id, binary.BigEndian.AppendUint32([]byte{0}, maxReceive)[:5])
			w.flood(id, body)
		}
	}
	for _, w := range wires {
		w.refused(1, "reset ENHANCE_YOUR_CALM")
	}
	for _, w := range wires {
		for id := uint32(1); id < w.next; id += 2 {
			w.refused(id, "reset ENHANCE_YOUR_CALM")
		}
		w.close()
	}
}

// halfHeaders sends the headers of a stream one byte at a time.
func halfHeaders(t *testing.T, s *stage) {
	var wires []*wire
	var block []byte
	for range size(5, 200) {
		w := s.wire(t, false)
		w.roundTrip() // so that nothing has to be said between the headers
		block = append([]byte(nil), w.headers(deltaMethod, "x-fill", strings.Repeat("f", 8<<10))...)
		_ = w.send(func(f *http2.Framer) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:1]})
		})
		wires = append(wires, w)
	}
	began := time.Now()
	for i := 0; wires[0].outcome(1) == "" && i < len(block)-2; i++ {
		for _, w := range wires {
			_ = w.send(func(f *http2.Framer) error { return f.WriteContinuation(1, false, block[i+1:i+2]) })
		}
		if time.Since(began) > xdstest.Patience {
			break
		}
		<-time.After(request / 20)
	}
	for _, w := range wires {
		w.refused(1, "goaway ENHANCE_YOUR_CALM: a frame, or the headers")
		w.closed("headers that do not end")
		w.close()
	}
}

// halfFrames announces frames, and does not end them.
func halfFrames(t *testing.T, s *stage) {
	var wires []*wire
	for i := range size(10, 500) {
		w := s.wire(t, false)
		id := w.begins()
		frame := append([]byte{0, 0, 100, byte(http2.FrameData), 0, 0, 0, 0, byte(id)}, half(95)...)
		_, _ = w.conn.Write(frame[:1+i%len(frame)])
		wires = append(wires, w)
	}
	for i, w := range wires {
		w.refused(1, "goaway ENHANCE_YOUR_CALM: a frame, or the headers")
		w.closed(fmt.Sprintf("half of frame %d", i))
		w.close()
	}
}

// noStreams sends a byte each on very many streams that were never opened, so that a
// message of each is incomplete, and then a byte now and then, for which all of them
// might have to be looked at.
func noStreams(t *testing.T, s *stage) {
	for range size(2, 20) {
		w := s.wire(t, false)
		w.begins()
		var b bytes.Buffer
		f := http2.NewFramer(&b, nil)
		for i := range size[uint32](20_000, 1_000_000) {
			_ = f.WriteData(2*i+1001, false, []byte{0})
		}
		_, _ = w.conn.Write(b.Bytes())
		w.refused(1, "goaway ENHANCE_YOUR_CALM: incomplete requests", "closed") // what was said may be lost with what is not read
		w.closed("data of no streams")
		w.close()
	}
}

// smallFrames sends large requests a byte in a frame, as fast as it can: each frame takes
// far more memory than its byte.
func smallFrames(t *testing.T, s *stage) {
	w := s.wire(t, false)
	var ids []uint32
	for range size(3, 20) {
		id := w.begins()
		w.body(id, binary.BigEndian.AppendUint32([]byte{0}, maxReceive)[:5])
		for sent := 0; sent < maxReceive/2 && w.outcome(id) == ""; {
			n := min(w.room(id), 4096)
			if n <= 0 {
				<-time.After(time.Millisecond)
				continue
			}
			var b bytes.Buffer
			f := http2.NewFramer(&b, nil)
			for range n {
				_ = f.WriteData(id, false, []byte{0})
			}
			_ = w.send(func(*http2.Framer) error { _, err := w.conn.Write(b.Bytes()); return err })
			w.spent[id] += n
			w.spent[0] += n
			sent += n
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		w.refused(id, "reset ENHANCE_YOUR_CALM")
	}
	w.close()
}
