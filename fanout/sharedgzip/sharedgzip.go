// Package sharedgzip compresses a body once for many recipients, each of which gets a few bytes of
// its own appended.
//
// A gzip member (RFC 1952) is a header, a deflate stream, and the checksum and length of the
// uncompressed bytes. The shared bytes are deflated up to a byte boundary. The bytes of a recipient
// follow uncompressed in a last, stored block; the checksum is continued over them, and their
// length is added. The result is an ordinary member, which every gzip reader accepts.
//
// If a member holds a secret next to text that an attacker controls, the length of the member
// reveals the secret to an observer (CRIME, BREACH). This package does not prevent that: callers
// must not compress secrets.
package sharedgzip

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"sync"

	"github.com/klauspost/compress/flate"
)

// level is the compression level. Of the levels that deflate 100 KiB of clusters or endpoints in
// less than half a millisecond, it has the smallest output, except for one that takes a quarter
// longer for another 2 %.
const level = 5

// header is that of a gzip member: deflate, no flags, no time, no level hint, unknown system.
var header = [...]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

const (
	// lastStored begins a deflate block that is stored and the last one.
	lastStored = 1
	// maxStored is the maximum length of a stored block, in bytes.
	maxStored = math.MaxUint16
	// blockHeader is the size of the kind, length and inverted length of a stored block; trailer is
	// the size of the checksum and length at the end of the member. In bytes.
	blockHeader, trailer = 5, 8
)

// Overhead is how many bytes [Member.AppendTail] adds to a tail of at most 65,535 bytes.
const Overhead = blockHeader + trailer

// maxScratch bounds each buffer that is kept for reuse, in bytes.
const maxScratch = 1 << 20

// Compressor makes members. The zero value is ready. It is safe for concurrent use and must not be
// copied. It keeps buffers for reuse, about 1 MiB for each body that is compressed at the same
// time.
type Compressor struct {
	idle sync.Pool // of *deflater
}

// deflater holds the buffers for compressing one body.
type deflater struct {
	writer *flate.Writer
	out    bytes.Buffer
}

// Member is a compressed body. It is immutable and safe for concurrent use.
type Member struct {
	head   []byte
	crc    uint32 // of the body
	length uint32 // of the body, modulo 2^32 as in the trailer
}

// Compress deflates body and does not keep a reference to it. The member is larger than the body by
// at most about 25 bytes, plus 5 for each 64 KiB.
func (c *Compressor) Compress(body []byte) *Member {
	d, ok := c.idle.Get().(*deflater)
	if !ok {
		d = newDeflater()
	}
	d.out.Reset()
	d.out.Write(header[:])
	d.writer.Reset(&d.out)
	// Writes to a buffer cannot fail.
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

// Head returns the part of the member that all recipients share: all but the output of
// [Member.AppendTail]. It must not be changed.
func (m *Member) Head() []byte { return m.head }

// AppendTail appends to dst the end of the member, so that its content is the body followed by
// tail, and returns the extended slice.
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
