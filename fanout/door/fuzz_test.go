package door

import "testing"

// FuzzFrames: where frames begin does not depend on the pieces in which they are
// written, and what is written after all of them is between two again.
func FuzzFrames(f *testing.F) {
	f.Add(frameOf("why"), uint8(3))
	f.Add(append(frameOf(""), 0, 0, 200), uint8(1))
	f.Fuzz(func(t *testing.T, raw []byte, piece uint8) {
		var whole, parts frames
		whole.pass(raw)
		for rest := raw; len(rest) > 0; {
			n := min(int(piece)%16+1, len(rest))
			parts.pass(rest[:n])
			rest = rest[n:]
		}
		if whole != parts {
			t.Fatalf("%+v at once, %+v in pieces", whole, parts)
		}
		if whole.have >= headerLen || whole.left < 0 || whole.left >= 1<<24 {
			t.Fatalf("impossible: %+v", whole)
		}
		if whole.have > 0 {
			whole.pass(make([]byte, headerLen-whole.have))
		}
		for zeros := make([]byte, 64<<10); whole.left > 0; {
			whole.pass(zeros[:min(len(zeros), whole.left)])
		}
		if !whole.between() {
			t.Fatalf("not between frames: %+v", whole)
		}
	})
}
