package redact

import (
	"slices"
	"strings"
)

// telling are parts of names whose values are secret, without separators.
var telling = []string{
	"password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "privatekey", "accesskey", "sharedkey",
	"signingkey", "encryptionkey", "masterkey", "sessionkey", "authkey", "jsonkey", "authorization", "bearer", "cookie", "hmac",
	"inlinebytes", "inlinestring", "inlinecode",
}

// alone are such names, too short to be looked for in others.
var alone = []string{"pass", "pwd", "pw", "psk", "pin", "jwt", "auth", "sessionid"}

// harmless are endings of names that tell where a secret is, or how large, and not
// what it is.
var harmless = []string{"path", "file", "filename", "uri", "url", "endpoint", "type", "name", "ttl", "seconds", "size", "count"}

// Sensitive reports whether the value that has this name is a secret, as far as
// the name tells: that of a field, a key, a header, in any way of writing.
func Sensitive(name string) bool {
	var plain [64]byte
	n := plain[:0]
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'A' && c <= 'Z':
			n = append(n, c|0x20)
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			n = append(n, c)
		}
	}
	flat := string(n)
	if slices.Contains(alone, flat) {
		return true
	}
	for _, word := range telling {
		if strings.Contains(flat, word) {
			return !endsHarmlessly(flat, word)
		}
	}
	return false
}

// endsHarmlessly reports whether the last word of a name says that it is about a
// secret, and none itself.
func endsHarmlessly(flat, word string) bool {
	for _, end := range harmless {
		if strings.HasSuffix(flat, end) && !strings.HasSuffix(flat, word) {
			return true
		}
	}
	return false
}
