package resource

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// NameList is a list of names as it stands in an encoded message, to which it
// refers. Most requests state names that are known, so that there is no need to
// make a string of each. The zero NameList is empty.
type NameList struct {
	message []byte // which is well-formed
	tag     uint64 // of the field that holds the names
	len     int
}

// ListNames makes a list of its own.
func ListNames(names ...string) (l NameList) {
	var b []byte
	for _, n := range names {
		b = protowire.AppendVarint(b, sotwReqNames)
		b = protowire.AppendString(b, n)
	}
	return NameList{b, sotwReqNames, len(names)}
}

// Len is the number of names, those that stand twice counted twice.
func (l NameList) Len() int { return l.len }

// All gives the names, in their order, as parts of the message.
func (l NameList) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		b, left := l.message, l.len
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

// Without returns the names but for one, as strings that do not refer to the
// message; nil if there are none.
func (l NameList) Without(name string) []string {
	if l.len == 0 {
		return nil
	}
	names := make([]string, 0, l.len)
	for n := range l.All() {
		if string(n) != name {
			names = append(names, string(n))
		}
	}
	return names
}

// add notes one more name, the content of a field of message.
func (l *NameList) add(message []byte, field string, f field) error {
	l.message, l.tag = message, f.tag
	l.len++
	return checkText(field, f.bytes)
}
