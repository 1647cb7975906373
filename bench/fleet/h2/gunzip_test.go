package h2

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// onceCompressed is a gzip member whose last block is stored, after a flush.
func onceCompressed(t testing.TB, shared, own []byte) []byte {
	b := bytes.NewBuffer([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255})
	w, err := flate.NewWriter(b, flate.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(shared) // into memory
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	m := append(b.Bytes(), 1)
	m = binary.LittleEndian.AppendUint16(m, uint16(len(own)))
	m = binary.LittleEndian.AppendUint16(m, ^uint16(len(own)))
	m = append(m, own...)
	m = binary.LittleEndian.AppendUint32(m, crc32.Update(crc32.ChecksumIEEE(shared), crc32.IEEETable, own))
	return binary.LittleEndian.AppendUint32(m, uint32(len(shared)+len(own)))
}

// TestGunzipOnce holds that messages with a common beginning are understood,
// and the beginning inflated once.
func TestGunzipOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := &inflater{}
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 4).Draw(rt, "bodies")
		for _, at := range rapid.SliceOfN(rapid.IntRange(0, len(bodies)-1), 1, 12).Draw(rt, "order") {
			own := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "own")
			m := onceCompressed(t, bodies[at], own)
			out, err := f.gunzip(m, 1000)
			if err != nil || !bytes.Equal(*out, append(bytes.Clone(bodies[at]), own...)) {
				rt.Fatalf("got %q, %v, expected %q and %q", *out, err, bodies[at], own)
			}
			giveBuffer(out)
		}
		if len(f.seen) > len(bodies) {
			rt.Fatalf("%d beginnings are known of %d", len(f.seen), len(bodies))
		}
	})
}

// TestGunzipDamaged holds that a known beginning excuses nothing.
func TestGunzipDamaged(t *testing.T) {
	f := &inflater{}
	shared := []byte(strings.Repeat("all have this ", 30))
	if _, err := f.gunzip(onceCompressed(t, shared, []byte("one")), 1000); err != nil || len(f.seen) != 1 {
		t.Fatalf("%v, with %d beginnings, expected one", err, len(f.seen))
	}
	good := onceCompressed(t, shared, []byte("two"))
	for _, at := range []int{len(good) - 1, len(good) - 6, len(good) - 9} { // length, CRC, content
		bad := bytes.Clone(good)
		bad[at] ^= 1
		if out, err := f.gunzip(bad, 1000); err == nil {
			t.Errorf("byte %d was changed: got %q, expected an error", at, *out)
		}
	}
	if out, err := f.gunzip(good, 422); err == nil {
		t.Errorf("got %d bytes, expected 422 at most", len(*out))
	}
}

// BenchmarkGunzip is what 100 KB cost whose beginning is known.
func BenchmarkGunzip(b *testing.B) {
	f := &inflater{}
	shared := bytes.Repeat([]byte("some text that can be compressed, 0123456789 "), 2300)
	m := onceCompressed(b, shared, []byte("nonce"))
	for b.Loop() {
		out, err := f.gunzip(m, 1<<20)
		if err != nil {
			b.Fatal(err)
		}
		giveBuffer(out)
	}
}
