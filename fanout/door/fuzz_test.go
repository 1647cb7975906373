package door

import (
	"bytes"
	"slices"
	"testing"
)

// FuzzFrames: where frames begin does not depend on the pieces in which they are
// written, and what is written after all of them is between two again.
func FuzzFrames(f *testing.F) {
	f.Add(frameOf("why"), uint8(3))
	f.Add(append(frameOf(""), 0, 0, 200), uint8(1))
	f.Add([]byte{0, 0, 4, typeReset, 0, 0, 0, 0, 1, 0, 0, 0, refusedStream}, uint8(5))
	f.Fuzz(func(t *testing.T, raw []byte, piece uint8) {
		var whole, parts frames
		var atOnce, inParts [][]byte // what ends something
		whole.pass(raw, func(kind byte, body []byte) { atOnce = append(atOnce, append([]byte{kind}, body...)) })
		for rest := raw; len(rest) > 0; {
			n := min(int(piece)%16+1, len(rest))
			parts.pass(rest[:n], func(kind byte, body []byte) {
				inParts = append(inParts, append([]byte{kind}, body...))
				_ = endOf(kind, body)
			})
			rest = rest[n:]
		}
		if !slices.EqualFunc(atOnce, inParts, bytes.Equal) {
			t.Fatalf("%q ended something at once, %q in pieces", atOnce, inParts)
		}
		nothing := func(byte, []byte) {}
		if whole != parts {
			t.Fatalf("%+v at once, %+v in pieces", whole, parts)
		}
		if whole.have >= headerLen || whole.left < 0 || whole.left >= 1<<24 {
			t.Fatalf("impossible: %+v", whole)
		}
		if whole.have > 0 {
			whole.pass(make([]byte, headerLen-whole.have), nothing)
		}
		for zeros := make([]byte, 64<<10); whole.left > 0; {
			whole.pass(zeros[:min(len(zeros), whole.left)], nothing)
		}
		if !whole.between() {
			t.Fatalf("not between frames: %+v", whole)
		}
	})
}
