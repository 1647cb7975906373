package resource

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// urnScheme starts structured names. All others are opaque.
const urnScheme = "xdstp://"

// URN is a structured resource name, in its parts:
//
//	xdstp://[authority]/[type]/[id]?[params]#[fragment]
//
// https://github.com/cncf/xds/blob/main/proposals/TP1-xds-transport-next.md
type URN struct {
	// Authority identifies the server of the resource; may be empty (G3).
	Authority string
	// Type is the message name of the resource, without [TypePrefix].
	Type string
	// ID is opaque; its parts are separated by "/". May be empty.
	ID string
	// Params are the context parameters, sorted, each key once.
	Params []Param
	// Fragment holds directives in their original spelling. Names of resources have none (G5).
	Fragment string
}

// Param is one context parameter of a [URN].
type Param struct{ Key, Value string }

// IsURN reports whether name has the form of a structured name.
func IsURN(name string) bool { return strings.HasPrefix(name, urnScheme) }

// IsURNBytes is [IsURN] for a name in bytes.
func IsURNBytes(name []byte) bool {
	return len(name) >= len(urnScheme) && string(name[:len(urnScheme)]) == urnScheme
}

// ParseURN parses a structured name. Percent-encoding is decoded, in each part separately. Of
// parameters with the same key the last counts.
func ParseURN(name string) (u URN, err error) {
	rest, ok := strings.CutPrefix(name, urnScheme)
	if !ok {
		return u, fmt.Errorf("it does not begin with %s", urnScheme)
	}
	rest, u.Fragment, ok = strings.Cut(rest, "#")
	if ok && u.Fragment == "" {
		return u, errors.New("nothing follows its #")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	typ, id, _ := strings.Cut(path, "/")
	for _, part := range [...]struct {
		to   *string
		from string
	}{{&u.Authority, authority}, {&u.Type, typ}, {&u.ID, id}} {
		if *part.to, err = unescape(part.from); err != nil {
			return URN{}, err
		}
	}
	if u.Type == "" {
		return URN{}, fmt.Errorf("it has no resource type, expected %sAUTHORITY/TYPE/ID", urnScheme)
	}
	if u.Params, err = parseParams(query); err != nil {
		return URN{}, err
	}
	return u, nil
}

func parseParams(query string) (params []Param, err error) {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		var p Param
		key, value, _ := strings.Cut(pair, "=")
		if p.Key, err = unescape(key); err != nil {
			return nil, err
		}
		if p.Value, err = unescape(value); err != nil {
			return nil, err
		}
		params = append(params, p)
	}
	// In reverse, so that of equal keys the last one is first and is kept.
	slices.Reverse(params)
	slices.SortStableFunc(params, func(a, b Param) int { return cmp.Compare(a.Key, b.Key) })
	return slices.CompactFunc(params, func(a, b Param) bool { return a.Key == b.Key }), nil
}

// String returns the canonical spelling of u.
func (u URN) String() string {
	b := append(make([]byte, 0, 128), urnScheme...)
	b = appendEscaped(b, u.Authority, inAuthority)
	b = append(b, '/')
	b = appendEscaped(b, u.Type, inType)
	if u.ID != "" {
		b = append(b, '/')
		b = appendEscaped(b, u.ID, inID)
	}
	sep := byte('?')
	for _, p := range u.Params {
		b = append(b, sep)
		b = appendEscaped(b, p.Key, inParam)
		b = append(b, '=')
		b = appendEscaped(b, p.Value, inParam)
		sep = '&'
	}
	if u.Fragment != "" {
		b = append(b, '#')
		b = append(b, u.Fragment...)
	}
	return string(b)
}

// charset is the set of bytes that are not escaped in a part of a URN.
type charset [256]bool

// Letters, digits and the bytes that RFC 3986 allows everywhere in a path. The separators after a
// part differ between parts.
const pathBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$'()*+,;:@"

var (
	inAuthority = newCharset(pathBytes + "&=")
	inType      = newCharset(pathBytes + "&=")
	inID        = newCharset(pathBytes + "&=/")
	inParam     = newCharset(pathBytes + "/?")
)

func newCharset(bytes string) *charset {
	var c charset
	for i := range len(bytes) {
		c[bytes[i]] = true
	}
	return &c
}

func appendEscaped(b []byte, s string, plain *charset) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; plain[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

var errEscape = errors.New("a percent sign is not followed by two hexadecimal digits")

func unescape(s string) (string, error) {
	at := strings.IndexByte(s, '%')
	if at < 0 {
		return s, nil
	}
	b := append(make([]byte, 0, len(s)), s[:at]...)
	for i := at; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errEscape
		}
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi < 0 || lo < 0 {
			return "", errEscape
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	return string(b), nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
