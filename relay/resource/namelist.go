package resource

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// NameList is a list of names as it stands in an encoded message, to which it
// refers. Most requests state names that are known, so that there is no need to
// look at each. The zero NameList is empty.
type NameList struct {
	raw []byte // the message from the first of the names to the last
	tag uint64 // of the field that holds them
	len int
}

// ListNames makes a list of its own.
func ListNames(names ...string) (l NameList) {
	for _, n := range names {
		l.raw = protowire.AppendVarint(l.raw, sotwReqNames)
		l.raw = protowire.AppendString(l.raw, n)
	}
	l.tag, l.len = sotwReqNames, len(names)
	return l
}

// Bytes are the bytes that hold the list: where they are equal, so are the names.
func (l NameList) Bytes() []byte { return l.raw }

// Len is the number of names, those that stand twice counted twice.
func (l NameList) Len() int { return l.len }

// All gives the names, in their order, as parts of the message.
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

// Without returns the names but for one, as strings that do not refer to the
// message; nil if there are none. It fails where proto3 would accept none of it.
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

// add notes the names in a field, or in a run of such, of the message that those
// before are in.
func (l *NameList) add(f field) {
	if l.len == 0 {
		l.raw = f.raw
	}
	// Both end with the message, as far as they could be extended.
	l.raw = l.raw[:cap(l.raw)-cap(f.raw)+len(f.raw)]
	l.tag = f.tag
	l.len += f.count
}
