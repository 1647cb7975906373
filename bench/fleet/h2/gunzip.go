package h2

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// inflater takes compressed messages apart for all connections of a dialer.
//
// A server that compresses once for many clients sends messages that agree up
// to a last block, which is stored as it is and holds what is the client's own.
// What comes before such a block is inflated once.
type inflater struct {
	pool sync.Pool // of *member

	mu   sync.Mutex
	seen map[uint64]*prefix // guarded by mu; by the hash of the compressed bytes
	size int                // guarded by mu; what is in seen
}

// prefix is what the messages of many clients begin with, inflated.
type prefix struct {
	plain []byte
	crc   uint32
}

// keptPrefixes bounds what is kept inflated, in bytes. Beyond it everything is
// forgotten: old contents do not come again.
const keptPrefixes = 32 << 20

type member struct {
	gz gzip.Reader
	in bytes.Reader
}

// gunzip returns what m holds, in a buffer that is to be given back.
func (f *inflater) gunzip(m []byte, most int) (*[]byte, error) {
	shared, own, ok := splitStored(m)
	if !ok {
		return f.inflate(m, most)
	}
	hash := xxhash.Sum64(shared)
	f.mu.Lock()
	p := f.seen[hash]
	f.mu.Unlock()
	if p != nil && len(p.plain)+len(own) <= most && trailer(m, crc32.Update(p.crc, crc32.IEEETable, own), len(p.plain)+len(own)) {
		out := takeBuffer(len(p.plain) + len(own))
		*out = append(append(*out, p.plain...), own...)
		return out, nil
	}
	out, err := f.inflate(m, most)
	if err == nil && bytes.HasSuffix(*out, own) {
		f.remember(hash, (*out)[:len(*out)-len(own)])
	}
	return out, err
}

func (f *inflater) remember(hash uint64, plain []byte) {
	p := &prefix{bytes.Clone(plain), crc32.ChecksumIEEE(plain)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil || f.size+len(plain) > keptPrefixes {
		f.seen, f.size = make(map[uint64]*prefix), 0
	}
	f.seen[hash] = p
	f.size += len(plain)
}

const (
	storedHeader = 5 // the last block, stored: 1, the length, and its complement
	gzipTrailer  = 8 // CRC-32 and length
	longestOwn   = 512
)

// splitStored divides a compressed message before its last block, if that is
// stored, short, and follows a flush.
func splitStored(m []byte) (shared, own []byte, ok bool) {
	flush := []byte{0, 0, 0xff, 0xff}
	end := len(m) - gzipTrailer
	for n := range longestOwn {
		at := end - n - storedHeader
		if at < len(flush) {
			break
		}
		if m[at] == 1 && int(binary.LittleEndian.Uint16(m[at+1:])) == n && binary.LittleEndian.Uint16(m[at+3:]) == ^uint16(n) &&
			bytes.HasSuffix(m[:at], flush) {
			return m[:at], m[end-n : end], true
		}
	}
	return nil, nil, false
}

// trailer reports whether a message ends with a CRC and a length.
func trailer(m []byte, crc uint32, length int) bool {
	t := m[len(m)-gzipTrailer:]
	return binary.LittleEndian.Uint32(t) == crc && binary.LittleEndian.Uint32(t[4:]) == uint32(length)
}

// inflate takes a message apart without any knowledge of others.
func (f *inflater) inflate(m []byte, most int) (*[]byte, error) {
	r, ok := f.pool.Get().(*member)
	if !ok {
		r = &member{}
	}
	defer f.pool.Put(r)
	r.in.Reset(m)
	if err := r.gz.Reset(&r.in); err != nil {
		return nil, err
	}
	out := takeBuffer(4 * len(m))
	b := *out
	for {
		if len(b) == cap(b) {
			larger := takeBuffer(2 * cap(b))
			b = append(*larger, b...)
			giveBuffer(out)
			out = larger
		}
		n, err := r.gz.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if len(b) > most {
			giveBuffer(out)
			return nil, fmt.Errorf("it holds more than %d bytes", most)
		}
		if err != nil {
			*out = b
			if errors.Is(err, io.EOF) {
				return out, nil
			}
			giveBuffer(out)
			return nil, err
		}
	}
}
