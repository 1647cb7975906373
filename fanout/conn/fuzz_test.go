package conn

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// FuzzFrames: the frame boundaries do not depend on how writes are split, and after whole frames
// the state is between two.
func FuzzFrames(f *testing.F) {
	f.Add(goAway(http2.ErrCodeNo, "why"), uint8(3))
	f.Add(append(goAway(http2.ErrCodeNo, ""), 0, 0, 200), uint8(1))
	f.Add([]byte{0, 0, 4, typeReset, 0, 0, 0, 0, 1, 0, 0, 0, refusedStream}, uint8(5))
	f.Fuzz(func(t *testing.T, raw []byte, piece uint8) {
		var whole, parts outgoing
		var overAtOnce, overInParts []uint32 // streams
		over := func(to *[]uint32) func(uint32) { return func(stream uint32) { *to = append(*to, stream) } }
		var atOnce, inParts [][]byte // frames that end something
		whole.pass(raw, func(kind byte, body []byte) { atOnce = append(atOnce, append([]byte{kind}, body...)) }, over(&overAtOnce))
		for rest := raw; len(rest) > 0; {
			n := min(int(piece)%16+1, len(rest))
			parts.pass(rest[:n], func(kind byte, body []byte) {
				inParts = append(inParts, append([]byte{kind}, body...))
				_ = endOf(kind, body)
			}, over(&overInParts))
			rest = rest[n:]
		}
		if !slices.Equal(overAtOnce, overInParts) {
			t.Fatalf("%d are over at once, %d in pieces", overAtOnce, overInParts)
		}
		if !slices.EqualFunc(atOnce, inParts, bytes.Equal) {
			t.Fatalf("%q ended something at once, %q in pieces", atOnce, inParts)
		}
		nothing, nobody := func(byte, []byte) {}, func(uint32) {}
		if whole != parts {
			t.Fatalf("%+v at once, %+v in pieces", whole, parts)
		}
		if whole.have >= headerLen || whole.left < 0 || whole.left >= 1<<24 {
			t.Fatalf("impossible: %+v", whole)
		}
		if whole.have > 0 {
			whole.pass(make([]byte, headerLen-whole.have), nothing, nobody)
		}
		for zeros := make([]byte, 64<<10); whole.left > 0; {
			whole.pass(zeros[:min(len(zeros), whole.left)], nothing, nobody)
		}
		if !whole.between() {
			t.Fatalf("not between frames: %+v", whole)
		}
	})
}

// FuzzIncoming: what counts as incomplete does not depend on how reads are split, nothing is
// counted twice or lost, and for any input a reset is injected only between frames.
func FuzzIncoming(f *testing.F) {
	var b bytes.Buffer
	fr := http2.NewFramer(&b, nil)
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
	_ = fr.WriteContinuation(1, true, []byte{0x82})
	_ = fr.WriteDataPadded(1, false, of(3), make([]byte, 3))
	_ = fr.WriteData(1, false, of(9)[:4])
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0x82}, EndHeaders: true})
	_ = fr.WriteRSTStream(1, http2.ErrCodeCancel)
	f.Add(b.Bytes(), uint8(3))
	f.Fuzz(func(t *testing.T, raw []byte, piece uint8) {
		at := time.Unix(1, 0)
		now := func() time.Time { return at }
		var whole, parts incoming
		whole.take(raw, now)
		for rest := raw; len(rest) > 0; {
			n := min(int(piece)%16+1, len(rest))
			parts.take(rest[:n], now)
			rest = rest[n:]
		}
		if whole.size != parts.size || whole.ready != parts.ready || whole.whole() != parts.whole() || !maps.Equal(whole.partial, parts.partial) {
			t.Fatalf("%+v at once, %+v in pieces", whole, parts)
		}
		sum := 0
		for _, m := range whole.partial {
			sum += m.takes()
		}
		if sum != whole.size || len(whole.partial) == 0 && whole.partial != nil {
			t.Fatalf("%d bytes are counted as %d, in %d messages", sum, whole.size, len(whole.partial))
		}
		for stream, m := range whole.partial {
			whole.cut(stream, m)
			break
		}
		if len(whole.cuts) == 0 || whole.block {
			return
		}
		for zeros := make([]byte, 64<<10); ; {
			n, most := whole.inject(zeros)
			if n > 0 {
				break
			}
			// Frames of type 0, DATA, on stream 0.
			whole.take(make([]byte, most), now)
			if whole.block {
				return
			}
		}
		whole.wereCut()
	})
}

// BenchmarkRead reads typical input of a client: short messages in one frame each.
func BenchmarkRead(b *testing.B) {
	var raw bytes.Buffer
	fr := http2.NewFramer(&raw, nil)
	for range 64 {
		_ = fr.WriteData(1, false, of(100))
	}
	in := incoming{}
	b.SetBytes(int64(raw.Len()) / 64)
	b.ReportAllocs()
	for i := 0; i < b.N; i += 64 {
		in.take(raw.Bytes(), time.Now)
	}
}
