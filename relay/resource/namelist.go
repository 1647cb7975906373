package resource

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// NameList is a list of names in encoded form. It refers to the encoded message. Most requests
// repeat known names, so decoding each would be a waste. The zero NameList is empty.
type NameList struct {
	raw []byte // the message from the first name to the last
	tag uint64 // of the field of the names
	len int
}

// ListNames encodes names as a list.
func ListNames(names ...string) (l NameList) {
	for _, n := range names {
		l.raw = protowire.AppendVarint(l.raw, sotwReqNames)
		l.raw = protowire.AppendString(l.raw, n)
	}
	l.tag, l.len = sotwReqNames, len(names)
	return l
}

// Bytes returns the encoded list: equal bytes mean equal names.
func (l NameList) Bytes() []byte { return l.raw }

// Len returns the number of names; duplicates count.
func (l NameList) Len() int { return l.len }

// All iterates over the names, in their order, as parts of the message.
func (l NameList) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		b, left := l.raw, l.len
		for left > 0 {
			num, typ, n := protowire.ConsumeTag(b)
			size := protowire.ConsumeFieldValue(num, typ, b[n:])
			if protowire.EncodeTag(num, typ) == l.tag {
				name, _ := protowire.ConsumeBytes(b[n:])
				if !yield(name) {
					return
				}
				left--
			}
			b = b[n+size:]
		}
	}
}

// Has reports whether a name is in the list.
func (l NameList) Has(name string) bool {
	for n := range l.All() {
		if string(n) == name {
			return true
		}
	}
	return false
}

// Without returns the names except name, as strings that do not refer to the message; nil if the
// list is empty. It returns an error if a name is not valid UTF-8.
func (l NameList) Without(name string) (names []string, err error) {
	if l.len == 0 {
		return nil, nil
	}
	names = make([]string, 0, l.len)
	for n := range l.All() {
		if string(n) == name {
			continue
		}
		s, err := text("a resource name", n)
		if err != nil {
			return nil, err
		}
		names = append(names, s)
	}
	return names, nil
}

// add appends the names in a field, or in a run of fields, of the same message as the earlier
// names.
func (l *NameList) add(f field) {
	if l.len == 0 {
		l.raw = f.raw
	}
	// Both slices have the capacity up to the end of the message, so the difference of their
	// capacities is their distance.
	l.raw = l.raw[:cap(l.raw)-cap(f.raw)+len(f.raw)]
	l.tag = f.tag
	l.len += f.count
}
