package resource

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Digest identifies content: equal bytes have equal digests on every node and
// in every run (K11).
type Digest [16]byte

// Hex is the digest as it stands in version strings.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// Add returns the digest of a set with e in it. Sets are summed, so the order
// of members does not matter and a change costs one Sub and one Add.
func (d Digest) Add(e Digest) Digest { return d.sum(e, 0) }

// Sub returns the digest of a set without e.
func (d Digest) Sub(e Digest) Digest {
	for i := range e {
		e[i] = ^e[i]
	}
	return d.sum(e, 1) // two's complement: d + ^e + 1
}

func (d Digest) sum(e Digest, carry uint64) (out Digest) {
	dl, dh := binary.LittleEndian.Uint64(d[:8]), binary.LittleEndian.Uint64(d[8:])
	el, eh := binary.LittleEndian.Uint64(e[:8]), binary.LittleEndian.Uint64(e[8:])
	lo := dl + el
	var c uint64
	if lo < dl {
		c = 1
	}
	if lo+carry < lo {
		c = 1
	}
	binary.LittleEndian.PutUint64(out[:8], lo+carry)
	binary.LittleEndian.PutUint64(out[8:], dh+eh+c)
	return out
}

// digestOf hashes parts with their lengths, so that moving a byte from one
// part to the next gives another digest.
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

// Resource is one named resource at one version. It is immutable once built
// and shared by everybody who sends it.
type Resource struct {
	// Name identifies the resource within its type.
	Name string
	// Version is what delta clients are told: the origin's own (D14), or a
	// content digest where it gave none (D1).
	Version string
	// Body is the encoded google.protobuf.Any as the origin sent it; nil for
	// the body-less answer to an unresolvable alias (B38).
	Body []byte
	// Extra holds the encoded envelope fields that the relay only carries:
	// aliases, cache_control, metadata, resource_name and unknown ones (A7).
	Extra []byte
	// TTL is the lifetime that the origin gave; 0 means none.
	TTL time.Duration
	// Aliases are other names by which the resource may be subscribed (B38).
	Aliases []string
	// Endpoints is the name of the endpoint set that a Cluster of type EDS
	// refers to, "" otherwise (E3).
	Endpoints string

	content Digest // Body, Extra and TTL
	member  Digest // Name and Version
}

// New completes r: an empty Version is replaced by the content digest (D1,
// D14), and the digests are computed. r must not be changed afterwards.
func New(r Resource) *Resource {
	var ttl [8]byte
	binary.LittleEndian.PutUint64(ttl[:], uint64(r.TTL))
	r.content = digestOf(r.Body, r.Extra, ttl[:])
	if r.Version == "" {
		if r.TTL == 0 && len(r.Extra) == 0 {
			r.Version = digestOf(r.Body).Hex()
		} else {
			r.Version = r.content.Hex()
		}
	}
	r.member = digestOf([]byte(r.Name), []byte(r.Version))
	return &r
}

// SameContent reports whether r and o would be the same to every client apart
// from their versions (D15).
func (r *Resource) SameContent(o *Resource) bool { return r.content == o.content }

// Member is the digest of name and version, for digests of whole sets (D7).
func (r *Resource) Member() Digest { return r.member }

// Size is roughly the memory that r holds, in bytes.
func (r *Resource) Size() int {
	n := 160 + len(r.Name) + len(r.Version) + len(r.Body) + len(r.Extra) + len(r.Endpoints)
	for _, a := range r.Aliases {
		n += 16 + len(a)
	}
	return n
}

// NameDigest is the digest of a name, for digests of sets of names.
func NameDigest(name string) Digest { return digestOf([]byte(name)) }
