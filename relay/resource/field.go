package resource

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tags as they are on the wire: number<<3 | wire type, where the wire type 0 is a varint and 2 is a
// string, bytes or message. As everywhere in protobuf, a field with a known number and another wire
// type is an unknown field.
const (
	anyTypeURL, anyValue = 1<<3 | 2, 2<<3 | 2

	durationSeconds, durationNanos = 1 << 3, 2 << 3
)

// field is one field of an encoded message. Its slices refer to the message.
type field struct {
	tag    uint64 // number<<3 | wire type
	bytes  []byte // content, with wire type 2
	varint uint64 // value, with wire type 0
	raw    []byte // the whole encoded field
	count  int    // number of fields in raw; see eachRun
}

var errMalformed = errors.New("the protobuf encoding is truncated or malformed")

// eachField calls f for every field of the message b, in their order.
func eachField(b []byte, f func(field) error) error { return eachRun(b, runTags{}, f) }

// runTags are the tags of fields of which there may be thousands; 0 is none.
type runTags [2]uint64

// The tags in requests.
var (
	sotwRuns  = runTags{sotwReqNames}
	deltaRuns = runTags{deltaReqSubscribe, deltaReqVersions}
)

// runsIn returns the tags in requests of a variant.
func runsIn(delta bool) runTags {
	if delta {
		return deltaRuns
	}
	return sotwRuns
}

// eachRun is eachField, except that consecutive short fields with one of the given tags, of a string
// or a message, may be passed to f as one field, in raw.
func eachRun(b []byte, runs runTags, f func(field) error) error {
	for len(b) > 0 {
		x, err := firstField(b)
		if err != nil {
			return err
		}
		if x.tag == runs[0] || x.tag == runs[1] {
			n, size := shortFields(b[len(x.raw):], byte(x.tag))
			x.raw, x.count = b[:len(x.raw)+size], x.count+n
		}
		if err := f(x); err != nil {
			return err
		}
		b = b[len(x.raw):]
	}
	return nil
}

// shortFields counts the consecutive fields at the beginning of b that have up to 127 bytes and the
// given one-byte tag. size is the sum of their sizes.
func shortFields(b []byte, tag byte) (n, size int) {
	for size+1 < len(b) && b[size] == tag && b[size+1] < 0x80 {
		next := size + 2 + int(b[size+1])
		if next > len(b) {
			break
		}
		size = next
		n++
	}
	return n, size
}

// firstField decodes the field at the beginning of b.
func firstField(b []byte) (x field, err error) {
	num, typ, tagLen := protowire.ConsumeTag(b)
	if tagLen < 0 {
		return x, errMalformed
	}
	valLen := protowire.ConsumeFieldValue(num, typ, b[tagLen:])
	if valLen < 0 {
		return x, errMalformed
	}
	x = field{tag: protowire.EncodeTag(num, typ), raw: b[:tagLen+valLen], count: 1}
	switch typ {
	case protowire.BytesType:
		x.bytes, _ = protowire.ConsumeBytes(b[tagLen:])
	case protowire.VarintType:
		x.varint, _ = protowire.ConsumeVarint(b[tagLen:])
	}
	return x, nil
}

// text returns v as a string, or an error if proto3 would reject it.
func text(name string, v []byte) (string, error) {
	if err := checkText(name, v); err != nil {
		return "", err
	}
	return string(v), nil
}

func checkText(name string, v []byte) error {
	if !utf8.Valid(v) {
		return fmt.Errorf("%s is not valid UTF-8", name)
	}
	return nil
}

func appendText(to []string, name string, v []byte) ([]string, error) {
	s, err := text(name, v)
	return append(to, s), err
}

// merge appends v to the encoded message in to: protobuf merges repeated occurrences of a message
// field, and encodings merge by concatenation. The result is not nil, which means that the field is
// present.
func merge(to, v []byte) []byte {
	if to == nil {
		to = make([]byte, 0, len(v))
	}
	return append(to, v...)
}

// mergeIn is merge without a copy if there is a single occurrence, the usual case.
func mergeIn(to, v []byte) []byte {
	if to == nil {
		return slices.Clip(v)
	}
	return append(to, v...)
}

// stringField decodes the string field with the given number of the message b, and checks that all
// fields of b are well-formed. With number 0 it only checks.
func stringField(num protowire.Number, b []byte) (s string, err error) {
	tag := protowire.EncodeTag(num, protowire.BytesType)
	err = eachField(b, func(f field) error {
		if f.tag == tag {
			if !utf8.Valid(f.bytes) {
				return checkText(fmt.Sprintf("field %d", num), f.bytes)
			}
			s = string(f.bytes)
		}
		return nil
	})
	return s, err
}

// splitAny returns the parts of an encoded google.protobuf.Any.
func splitAny(b []byte) (url string, value []byte, err error) {
	err = eachField(b, func(f field) (err error) {
		switch f.tag {
		case anyTypeURL:
			url, err = typeURL(f.bytes)
		case anyValue:
			value = f.bytes
		}
		return err
	})
	return url, value, err
}

// typeURL avoids an allocation for known types: one type URL is decoded for every ACK and for every
// resource.
func typeURL(v []byte) (string, error) {
	if t, ok := byURL[string(v)]; ok {
		return t.URL, nil
	}
	return text("type_url", v)
}
