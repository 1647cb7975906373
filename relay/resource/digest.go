package resource

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// Digest identifies content: equal bytes have equal digests on every node and in every run (K11).
type Digest [16]byte

// Hex returns the digest as it is written in version strings.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// Add returns the digest of a set with e added. The digest of a set is a sum, so the order of
// members does not matter and a change costs one Sub and one Add.
func (d Digest) Add(e Digest) Digest { return d.sum(e, 0) }

// Sub returns the digest of a set without e.
func (d Digest) Sub(e Digest) Digest {
	for i := range e {
		e[i] = ^e[i]
	}
	return d.sum(e, 1) // two's complement: d + ^e + 1
}

func (d Digest) sum(e Digest, carry uint64) (out Digest) {
	le := binary.LittleEndian
	lo, carry := bits.Add64(le.Uint64(d[:8]), le.Uint64(e[:8]), carry)
	hi, _ := bits.Add64(le.Uint64(d[8:]), le.Uint64(e[8:]), carry)
	le.PutUint64(out[:8], lo)
	le.PutUint64(out[8:], hi)
	return out
}

// digestOf hashes parts with their lengths, so that moving a byte from one part to the next changes
// the digest.
func digestOf(parts ...[]byte) Digest {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	var sum [sha256.Size]byte
	return Digest(h.Sum(sum[:0])[:16])
}

// NamesDigest returns the digest of a sorted list of names. It is not a sum like the digests of
// sets of resources: clients choose the names, and a client that chooses the parts of a sum can
// construct collisions.
func NamesDigest(sorted []string) Digest {
	parts := make([][]byte, len(sorted))
	for i, n := range sorted {
		parts[i] = []byte(n)
	}
	return digestOf(parts...)
}
