// Package sharedgzip compresses what many are sent a single time, where each gets a
// few bytes of its own behind it.
//
// A gzip member (RFC 1952) is a header, a deflate stream, and the checksum and
// length of what was deflated. The shared bytes are deflated up to a boundary of
// bytes. What follows is as small as its recipient's own bytes: they are stored
// in a last block as they are, the checksum of the shared bytes is continued over
// them, and their length is added. Both together are an ordinary member, which
// every reader takes.
//
// Who sees the lengths of members that hold a secret, and can have text of their
// own put beside it, can guess the secret from them. Nothing here prevents that:
// secrets are not to be compressed.
package sharedgzip

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"sync"

	"github.com/klauspost/compress/flate"
)

// level is how hard to try. Of the levels that deflate 100 KiB of clusters or
// endpoints in less than half a millisecond, it leaves the fewest bytes, but for
// one that takes a quarter longer for another 2 %.
const level = 5

// header says: gzip, deflate, no flags, no time, no hint of the level, and a
// system that is unknown.
var header = [...]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

const (
	// lastStored begins a deflate block that is the last one and stored as it is.
	lastStored = 1
	// maxStored is the most bytes that a stored block can hold.
	maxStored = math.MaxUint16
	// blockHeader are a stored block's kind, length, and length inverted, in bytes,
	// and trailer are the checksum and the length of all, at the member's end.
	blockHeader, trailer = 5, 8
)

// Overhead is how many bytes [Member.AppendTail] adds to a tail of at most 65,535
// bytes.
const Overhead = blockHeader + trailer

// maxScratch bounds the buffers that are kept for the next body, in bytes.
const maxScratch = 1 << 20

// Compressor makes members. The zero value is ready; it is safe for concurrent
// use and must not be copied. It keeps what one body after the other can use,
// about 1 MiB for each that is compressed at the same time.
type Compressor struct {
	idle sync.Pool // of *deflater
}

// deflater is what compressing one body takes.
type deflater struct {
	writer *flate.Writer
	out    bytes.Buffer
}

// Member is a compressed body. It is immutable, and safe for concurrent use.
type Member struct {
	head   []byte
	crc    uint32 // of the body
	length uint32 // of the body, modulo 2^32, as the trailer has it
}

// Compress deflates body, and does not keep it. The member may be larger than
// the body, by at most about 25 bytes and 5 more for each 64 KiB.
func (c *Compressor) Compress(body []byte) *Member {
	d, ok := c.idle.Get().(*deflater)
	if !ok {
		d = newDeflater()
	}
	d.out.Reset()
	d.out.Write(header[:])
	d.writer.Reset(&d.out)
	// A buffer takes everything, so neither can fail.
	_, _ = d.writer.Write(body)
	_ = d.writer.Flush()

	m := &Member{crc: crc32.ChecksumIEEE(body), length: uint32(len(body))} //nolint:gosec // modulo 2^32
	m.head = make([]byte, d.out.Len())
	copy(m.head, d.out.Bytes())
	if d.out.Cap() > maxScratch {
		d.out = bytes.Buffer{}
	}
	c.idle.Put(d)
	return m
}

func newDeflater() *deflater {
	d := &deflater{}
	var err error
	if d.writer, err = flate.NewWriter(&d.out, level); err != nil {
		panic(err) // only for a level that does not exist
	}
	return d
}

// Head is the first part of the member, for everybody: all but what
// [Member.AppendTail] makes. It must not be changed.
func (m *Member) Head() []byte { return m.head }

// AppendTail appends to dst what completes the member so that it holds the body
// and tail behind it, and returns the extended slice.
func (m *Member) AppendTail(dst, tail []byte) []byte {
	crc := crc32.Update(m.crc, crc32.IEEETable, tail)
	length := m.length + uint32(len(tail)) //nolint:gosec // modulo 2^32
	for len(tail) > maxStored {
		dst = append(appendBlock(dst, 0, maxStored), tail[:maxStored]...)
		tail = tail[maxStored:]
	}
	dst = append(appendBlock(dst, lastStored, uint16(len(tail))), tail...) //nolint:gosec // the rest
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	return binary.LittleEndian.AppendUint32(dst, length)
}

// appendBlock appends the header of a stored block of n bytes.
func appendBlock(dst []byte, kind byte, n uint16) []byte {
	dst = append(dst, kind)
	dst = binary.LittleEndian.AppendUint16(dst, n)
	return binary.LittleEndian.AppendUint16(dst, ^n)
}
