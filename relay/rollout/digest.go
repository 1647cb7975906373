package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Digest names a revision: what it changes of the stable one. Each node computes the same one from
// the same changes, in any order. The zero value names none.
type Digest [16]byte

// Change is a name that a revision changes. Version is that of its content, which all nodes compute
// alike; it is empty if the revision has nothing by that name.
type Change struct {
	TypeURL, Name string
	Version       string
	Absent        bool
}

// DigestOf returns the digest of changes. Of several for the same name, all count. It sorts changes.
// Without changes it is zero.
func DigestOf(changes []Change) (d Digest) {
	if len(changes) == 0 {
		return Digest{}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		if c := strings.Compare(a.TypeURL, b.TypeURL); c != 0 {
			return c
		}
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.Version, b.Version)
	})
	h := sha256.New()
	var buf []byte
	for _, c := range changes {
		buf = buf[:0]
		for _, text := range []string{c.TypeURL, c.Name, c.Version} {
			buf = append(binary.AppendUvarint(buf, uint64(len(text))), text...)
		}
		if c.Absent {
			buf = append(buf, 1)
		} else {
			buf = append(buf, 0)
		}
		h.Write(buf)
	}
	copy(d[:], h.Sum(nil))
	return d
}

// IsZero reports whether the digest names no revision.
func (d Digest) IsZero() bool { return d == Digest{} }

// String is the short form that people see, such as r-5f31c2a0. Empty for none.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return "r-" + hex.EncodeToString(d[:4])
}

// MarshalText writes all of the digest.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads what [Digest.MarshalText] writes.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("digest of a revision: %d characters, expected %d", len(text), hex.EncodedLen(len(d)))
	}
	_, err := hex.Decode(d[:], text)
	return err
}
