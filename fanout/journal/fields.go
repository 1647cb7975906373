package journal

import (
	"encoding/hex"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"xdsrelay/relay/resource"
)

// known are the types that a byte stands for. The byte is the index and 1.
var known = append(resource.Known(), resource.KnownV2()...)

// appendType appends a byte for a known type, or else 0 and the URL.
func appendType(b []byte, t *resource.Type) []byte {
	for i, k := range known {
		if k == t {
			return append(b, byte(i+1)) //nolint:gosec // there are a few dozen
		}
	}
	return appendText(append(b, 0), t.URL, maxType)
}

// typeSize returns the size of a type at the beginning of b.
func typeSize(b []byte) int {
	if b[0] != 0 {
		return 1
	}
	return 2 + int(b[1])
}

// readType reads a type. ok is false if there is none.
func readType(b []byte) (url string, rest []byte, ok bool) {
	switch {
	case len(b) == 0 || int(b[0]) > len(known):
		return "", nil, false
	case b[0] == 0:
		return readText(b[1:])
	}
	return known[b[0]-1].URL, b[1:], true
}

// appendText appends the beginning of a text, and its length.
func appendText(b []byte, text string, most int) []byte {
	if len(text) > most {
		cut := most - len("…")
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		b = append(b, byte(cut+len("…"))) //nolint:gosec // at most most
		return append(append(b, text[:cut]...), "…"...)
	}
	return append(append(b, byte(len(text))), text...) //nolint:gosec // at most most
}

func readText(b []byte) (text string, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	return string(b[1 : 1+int(b[0])]), b[1+int(b[0]):], true
}

// packed marks the length of a version that is stored as the bytes that its digits stand for.
const packed = 0x80

// appendVersion appends a version. A digest takes half of its digits; of a long one, the middle is
// left out, since versions differ at either end.
func appendVersion(b []byte, version string) []byte {
	n := len(version)
	switch {
	case n > 0 && n <= 2*maxVersion && n%2 == 0 && isHex(version):
		b = append(b, packed|byte(n/2)) //nolint:gosec // at most maxVersion
		for i := 0; i < n; i += 2 {
			b = append(b, digit(version[i])<<4|digit(version[i+1]))
		}
		return b
	case n > maxVersion:
		const side = (maxVersion - len("…")) / 2
		b = append(b, byte(2*side+len("…")))
		return append(append(append(b, version[:side]...), "…"...), version[n-side:]...)
	}
	return append(append(b, byte(n)), version...) //nolint:gosec // at most maxVersion
}

func isHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func digit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

func readVersion(b []byte) (version string, ok bool) {
	if len(b) == 0 {
		return "", false
	}
	n := int(b[0] &^ packed)
	switch {
	case len(b) != 1+n:
		return "", false
	case b[0]&packed != 0:
		return hex.EncodeToString(b[1:]), true
	}
	return strings.ToValidUTF8(string(b[1:]), "�"), true
}

// A time until an answer takes two bytes: milliseconds, or from longTook on seconds.
const longTook = 1 << 15

func packTook(took time.Duration) uint16 {
	if ms := max(took.Milliseconds(), 0); ms < longTook {
		return uint16(ms) //nolint:gosec // compared
	}
	return longTook | uint16(min(int64(took/time.Second), math.MaxInt16)) //nolint:gosec // bounded
}

func readTook(v uint16) time.Duration {
	if v < longTook {
		return time.Duration(v) * time.Millisecond
	}
	return time.Duration(v&^longTook) * time.Second
}
