package content

import (
	"bytes"
	"strconv"
	"time"
)

const (
	stampMark = "xdsbench@"
	hexDigits = 16
	// StampSize is the length of a stamp in bytes.
	StampSize = len(stampMark) + hexDigits + 1 + hexDigits
)

// Stamp says which change a resource is from.
type Stamp struct {
	// Revision counts the changes; 0 is the first content.
	Revision uint64
	// At is when the change was intended, after 1970 and to the nanosecond.
	At time.Time
}

// AppendStamp appends the text of a stamp, which is [StampSize] bytes long.
func AppendStamp(b []byte, s Stamp) []byte {
	b = append(b, stampMark...)
	b = appendHex(b, s.Revision)
	b = append(b, '@')
	return appendHex(b, uint64(s.At.UnixNano()))
}

func appendHex(b []byte, n uint64) []byte {
	const hexDigit = "0123456789abcdef"
	for shift := 4 * (hexDigits - 1); shift >= 0; shift -= 4 {
		b = append(b, hexDigit[n>>shift&0xf])
	}
	return b
}

// FindStamp returns the first stamp in a resource's bytes, and false where there
// is none.
func FindStamp(body []byte) (Stamp, bool) {
	for {
		at := bytes.Index(body, []byte(stampMark))
		if at < 0 || len(body) < at+StampSize {
			return Stamp{}, false
		}
		body = body[at+len(stampMark):]
		revision, err := strconv.ParseUint(string(body[:hexDigits]), 16, 64)
		if err != nil || body[hexDigits] != '@' {
			continue
		}
		nanos, err := strconv.ParseInt(string(body[hexDigits+1:2*hexDigits+1]), 16, 64)
		if err != nil {
			continue
		}
		return Stamp{Revision: revision, At: time.Unix(0, nanos)}, true
	}
}
