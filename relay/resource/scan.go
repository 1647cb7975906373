package resource

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxTypeURL bounds the type URL of a request, in bytes: the relay stores unknown ones.
const MaxTypeURL = 512

// Counts are the numbers of entries of a request, grouped by the cost of decoding them.
type Counts struct {
	Names       int // resource_names or resource_names_subscribe
	Unsubscribe int // resource_names_unsubscribe
	Held        int // initial_resource_versions
	Locators    int // resource_locators of any kind, and their dynamic parameters
	Other       int // all other fields
}

// errEnough ends a count.
var errEnough = errors.New("too many")

// Count counts the entries of an encoded request of a variant. It allocates nothing, and stops when
// any of the numbers exceeds most.
func Count(delta bool, b []byte, most int) (c Counts, err error) {
	names := uint64(sotwReqNames)
	if delta {
		names = deltaReqSubscribe
	}
	err = eachRun(b, runsIn(delta), func(f field) error {
		n := &c.Other
		switch {
		case f.tag == names:
			n = &c.Names
		case delta && f.tag == deltaReqUnsubscribe:
			n = &c.Unsubscribe
		case delta && f.tag == deltaReqVersions:
			n = &c.Held
		case !delta && f.tag == sotwReqLocators, delta && (f.tag == deltaReqSubLocators || f.tag == deltaReqUnsubLocators):
			n = &c.Locators
			parameters, err := countFields(f.bytes, locatorParams, most-*n)
			if *n += parameters; err != nil {
				return err
			}
		}
		if *n += f.count; *n > most {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return c, err
}

// countFields counts the fields of an encoded message with a tag. It returns errEnough if there are
// more than most.
func countFields(b []byte, tag uint64, most int) (n int, err error) {
	err = eachField(b, func(f field) error {
		if f.tag == tag {
			n++
		}
		if n > most {
			return errEnough
		}
		return nil
	})
	return n, err
}

// NodeNumber returns the number of the Node field in a request of a variant.
func NodeNumber(delta bool) protowire.Number {
	if delta {
		return deltaReqNode >> 3
	}
	return sotwReqNode >> 3
}

// NodeIn finds the Node, a field with the given number, in the beginning of an encoded request. It
// returns the part of it that is present, and its full size in bytes; node is nil if it does not
// start there.
func NodeIn(beginning []byte, number protowire.Number) (node []byte, size int, err error) {
	for b := beginning; len(b) > 0; {
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return nil, 0, incomplete(tag)
		}
		if num == number && typ == protowire.BytesType {
			n, prefix := protowire.ConsumeVarint(b[tag:])
			if prefix < 0 {
				return nil, 0, incomplete(prefix)
			}
			node = b[tag+prefix:]
			if n < uint64(len(node)) {
				node = node[:n]
			}
			return slices.Clip(node), int(min(n, 1<<31)), nil //nolint:gosec // bounded
		}
		n := protowire.ConsumeFieldValue(num, typ, b[tag:])
		if n < 0 {
			return nil, 0, incomplete(n)
		}
		b = b[tag+n:]
	}
	return nil, 0, nil
}

// incomplete returns the error for a field that cannot be decoded: nil if it is only truncated.
func incomplete(n int) error {
	if errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF) {
		return nil
	}
	return errMalformed
}

// FieldsOf returns the complete fields whose numbers are bits of set, from the beginning of an
// encoded message. It stops at a truncated or malformed field.
func FieldsOf(beginning []byte, set uint64) (b []byte) {
	for len(beginning) > 0 {
		number, _, n := protowire.ConsumeField(beginning)
		if n < 0 {
			break
		}
		if number < 64 && set&(1<<number) != 0 {
			b = append(b, beginning[:n]...)
		}
		beginning = beginning[n:]
	}
	return b
}

// requestType is typeURL for a request, whose client is not trusted.
func requestType(v []byte) (string, error) {
	if len(v) > MaxTypeURL {
		return "", fmt.Errorf("type_url has %d bytes, expected at most %d", len(v), MaxTypeURL)
	}
	return typeURL(v)
}

// NodeOf returns the Node of an encoded request of a variant, nil if it has none. It decodes
// nothing else. The result refers to b.
func NodeOf(delta bool, b []byte) (node []byte, err error) {
	tag := protowire.EncodeTag(NodeNumber(delta), protowire.BytesType)
	err = eachRun(b, runsIn(delta), func(f field) error {
		if f.tag == tag {
			node = mergeIn(node, f.bytes)
		}
		return nil
	})
	return node, err
}
