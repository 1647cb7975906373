package sharedgzip

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// whole returns the complete member for a recipient with tail.
func whole(m *Member, tail []byte) []byte {
	return append(bytes.Clone(m.Head()), m.AppendTail(nil, tail)...)
}

// read returns the content of a member. It fails unless data is exactly one member.
func read(member []byte) ([]byte, error) {
	rest := bytes.NewReader(member)
	r, err := gzip.NewReader(rest)
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	got, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if rest.Len() > 0 {
		return nil, errors.New("something follows the member")
	}
	return got, nil
}

// check fails unless reading returns the body and each tail unchanged.
func check(t interface{ Fatalf(string, ...any) }, c *Compressor, body []byte, tails ...[]byte) {
	before := bytes.Clone(body)
	m := c.Compress(body)
	for _, tail := range tails {
		got, err := read(whole(m, tail))
		if err != nil {
			t.Fatalf("a body of %d bytes and a tail of %d cannot be read: %v", len(body), len(tail), err)
		}
		if want := append(bytes.Clone(before), tail...); !bytes.Equal(got, want) {
			t.Fatalf("a body of %d bytes and a tail of %d became %d other bytes", len(body), len(tail), len(got))
		}
	}
	if !bytes.Equal(body, before) {
		t.Fatalf("the body was changed")
	}
}

// bodies draws repetitive bytes, random bytes, and mixtures of both.
func bodies() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) (body []byte) {
		for range rapid.IntRange(0, 6).Draw(t, "pieces") {
			piece := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "piece")
			times := rapid.SampledFrom([]int{1, 1, 2, 50, 700}).Draw(t, "times")
			body = append(body, bytes.Repeat(piece, times)...)
		}
		return body
	})
}

// TestReaders: an ordinary gzip reader returns every body with each of its tails.
func TestReaders(t *testing.T) {
	var c Compressor
	rapid.Check(t, func(t *rapid.T) {
		tails := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 40), 1, 4).Draw(t, "tails")
		check(t, &c, bodies().Draw(t, "body"), tails...)
	})
}

// TestSizes: all lengths of bodies and tails work, including the limits of a block.
func TestSizes(t *testing.T) {
	var c Compressor
	random := make([]byte, 4<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random)
	zero := make([]byte, len(random))
	for _, n := range []int{0, 1, 2, 5, 32 << 10, 65_534, 65_535, 65_536, 65_537, 3*65_535 + 1, len(random)} {
		check(t, &c, random[:n], nil, []byte("tail"))
		check(t, &c, zero[:n], nil, []byte("tail"))
		check(t, &c, []byte("body"), random[:n], zero[:n])
	}
	m := c.Compress(random)
	if more := len(m.Head()) - len(random); more > 25+5*len(random)/65_535+5 {
		t.Errorf("random bytes grew by %d", more)
	}
}

// TestTailIsAppended: dst keeps its content, and the tail costs the documented overhead.
func TestTailIsAppended(t *testing.T) {
	var c Compressor
	m := c.Compress([]byte("body"))
	before := bytes.Clone(m.Head())
	dst := m.AppendTail([]byte("before"), []byte("tail"))
	if rest, ok := bytes.CutPrefix(dst, []byte("before")); !ok || len(rest) != len("tail")+Overhead || !bytes.Equal(rest, m.AppendTail(nil, []byte("tail"))) {
		t.Errorf("appended %q", dst)
	}
	if !bytes.Equal(m.Head(), before) {
		t.Error("the shared part was changed")
	}
	if cap(m.Head()) != len(m.Head()) {
		t.Errorf("%d bytes are held for %d", cap(m.Head()), len(m.Head()))
	}
	tail, room := []byte("tail"), make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { room = m.AppendTail(room[:0], tail) }); n > 0 {
		t.Errorf("%v allocations where there is room", n)
	}
}

// TestConcurrently: members can be made and completed concurrently, and making one does not change
// another.
func TestConcurrently(t *testing.T) {
	var c Compressor
	shared := c.Compress([]byte(strings.Repeat("shared", 1000)))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			own := []byte(strings.Repeat(string(rune('a'+i)), 10_000*i))
			for range 20 {
				m := c.Compress(own)
				_ = c.Compress([]byte("the next"))
				for _, member := range [][]byte{whole(m, own[:i]), whole(shared, own[:i])} {
					if _, err := read(member); err != nil {
						t.Errorf("a member of %d: %v", i, err)
					}
				}
			}
		})
	}
	all.Wait()
}

func FuzzMember(f *testing.F) {
	f.Add([]byte(nil), []byte(nil))
	f.Add([]byte("body"), []byte("*\x011"))
	f.Add(bytes.Repeat([]byte("body"), 20_000), bytes.Repeat([]byte("tail"), 20_000))
	var c Compressor
	f.Fuzz(func(t *testing.T, body, tail []byte) { check(t, &c, body, tail, nil) })
}
