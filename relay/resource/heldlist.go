package resource

import (
	"hash/maphash"
	"iter"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Held is an entry of initial_resource_versions: a resource that a client already has.
type Held struct{ Name, Version string }

// HeldList is initial_resource_versions in encoded form. It refers to the encoded request. Most
// clients that reconnect have what they should have, and decoding a list only to see that would
// cost more than all else. The zero HeldList is empty.
type HeldList struct {
	raw  []byte // the request from the first entry to the last
	len  int
	size int // of the encoded entries without their tags, in bytes
}

// ListHeld encodes entries as a list.
func ListHeld(held ...Held) (l HeldList) {
	for _, h := range held {
		var entry []byte
		entry = protowire.AppendVarint(entry, mapKey)
		entry = protowire.AppendString(entry, h.Name)
		entry = protowire.AppendVarint(entry, mapValue)
		entry = protowire.AppendString(entry, h.Version)
		l.raw = protowire.AppendVarint(l.raw, deltaReqVersions)
		l.raw = protowire.AppendBytes(l.raw, entry)
		l.size += len(entry)
	}
	l.len = len(held)
	return l
}

// Len returns the number of entries; duplicates count.
func (l HeldList) Len() int { return l.len }

// Bytes returns at least as many bytes as all names and versions have together.
func (l HeldList) Bytes() int { return l.size }

// All iterates over names and versions, in their order, as parts of the request.
func (l HeldList) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, version []byte) bool) {
		for entry := range l.entries() {
			name, version, _ := heldEntry(entry)
			if !yield(name, version) {
				return
			}
		}
	}
}

// Sum returns a sum over the encoded entries that does not depend on their order: with a seed that a
// client does not know, it cannot construct two lists with one sum. Equal entries have the same
// encoding in practice; those that differ only in that have different sums.
func (l HeldList) Sum(seed maphash.Seed) (sum uint64) {
	for entry := range l.entries() {
		sum += maphash.Bytes(seed, entry)
	}
	return sum
}

// Decode returns the entries. Their texts are parts of one piece of memory, which is not the
// request.
func (l HeldList) Decode() []Held {
	if l.len == 0 {
		return nil
	}
	held := make([]Held, 0, l.len)
	var texts strings.Builder // there may be very many
	texts.Grow(l.size)
	for name, version := range l.All() {
		at := texts.Len()
		texts.Write(name)
		texts.Write(version)
		both := texts.String()[at:]
		held = append(held, Held{both[:len(name)], both[len(name):]})
	}
	return held
}

// entries iterates over the encoded entries.
func (l HeldList) entries() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		b := l.raw
		for left := l.len; left > 0; {
			// The usual field first: at most 127 bytes.
			if len(b) > 1 && b[0] == deltaReqVersions && b[1] < 0x80 {
				end := 2 + int(b[1])
				if !yield(b[2:end]) {
					return
				}
				b, left = b[end:], left-1
				continue
			}
			f, err := firstField(b)
			if err != nil {
				return // not of a request that was decoded
			}
			if f.tag == deltaReqVersions {
				if !yield(f.bytes) {
					return
				}
				left--
			}
			b = b[len(f.raw):]
		}
	}
}

// add appends the entry in a field, or the entries in a run of fields, of the same request as the
// earlier entries.
func (l *HeldList) add(f field) error {
	if l.len == 0 {
		l.raw = f.raw
	}
	// As in NameList.add.
	l.raw = l.raw[:cap(l.raw)-cap(f.raw)+len(f.raw)]
	l.len += f.count
	added := HeldList{raw: f.raw, len: f.count}
	usual := true
	for entry := range added.entries() {
		l.size += len(entry)
		_, _, is := usualEntry(entry)
		usual = usual && is
	}
	if usual && utf8.Valid(f.raw) {
		return nil // all texts are: what is between them is ASCII
	}
	for entry := range added.entries() {
		name, version, err := heldEntry(entry)
		if err == nil {
			err = checkText("a name in initial_resource_versions", name)
		}
		if err == nil {
			err = checkText("a version in initial_resource_versions", version)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// heldEntry decodes an entry of a map from names to versions.
func heldEntry(b []byte) (name, version []byte, err error) {
	name, version, usual := usualEntry(b)
	if usual {
		return name, version, nil
	}
	name, version = nil, nil
	err = eachField(b, func(f field) error {
		switch f.tag {
		case mapKey:
			name = f.bytes
		case mapValue:
			version = f.bytes
		}
		return nil
	})
	return name, version, err
}

// usualEntry decodes a map entry that has a key and a value of up to 127 bytes each, in this order, and
// nothing else, as all encoders write short ones. ok is false for others.
func usualEntry(b []byte) (key, value []byte, ok bool) {
	if len(b) < 2 || b[0] != mapKey || b[1] >= 0x80 {
		return nil, nil, false
	}
	n := 2 + int(b[1])
	if len(b) < n+2 || b[n] != mapValue || b[n+1] >= 0x80 || len(b) != n+2+int(b[n+1]) {
		return nil, nil, false
	}
	return b[2:n], b[n+2:], true
}
