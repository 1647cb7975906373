package redact

import (
	"slices"
	"strings"
)

// sensitive are parts of names whose values are secret, without separators.
var sensitive = []string{
	"password", "passwd", "passphrase", "secret", "token", "credential", "signature", "authorization", "bearer", "cookie", "hmac",
	"apikey", "privatekey", "accesskey", "sharedkey", "signingkey", "encryptionkey", "masterkey", "sessionkey", "authkey", "jsonkey",
	"functionskey", "functionkey", "subscriptionkey", "accountkey", "storagekey", "clientkey", "hostkey", "appkey", "licensekey",
	"connectionstring", "connstring", "basicauth", "proxyauth", "httpauth", "sessionid", "sessid",
	"inlinebytes", "inlinestring", "inlinecode",
}

// endings are ends of such names that are too short to be searched for anywhere in a name.
var endings = []string{"dsn", "pwd", "psk", "jwt", "sig", "otp"}

// lastWords are last words of such names that are also the end of other words.
var lastWords = []string{"pass", "pw", "pin", "pat"}

// whole are such names that are parts of many others.
var whole = []string{"auth", "xauth"}

// harmless are last words of names that say where a secret is, or how large, and not
// what it is.
var harmless = []string{
	"path", "file", "filename", "uri", "url", "endpoint", "type", "name", "ttl", "seconds", "size", "count", "algorithm", "algorithms",
}

// Sensitive reports whether the value that has this name is a secret, as far as the
// name shows: that of a field, a key, a header, in any way of writing.
func Sensitive(name string) bool {
	var room [64]byte
	flat, last := plain(room[:0], name)
	if len(flat) < 2 {
		return false
	}
	if slices.Contains(whole, flat) || slices.Contains(lastWords, last) {
		return true
	}
	for _, end := range endings {
		if strings.HasSuffix(flat, end) {
			return true
		}
	}
	for _, part := range sensitive {
		if strings.Contains(flat, part) {
			return !isAbout(flat, last, part)
		}
	}
	return false
}

// isAbout reports whether the last word of a name says that the value is about a secret,
// and not the secret. Where the words are not separated, it must follow the secret at once:
// tokenfile is a file, and passwordprofile is not.
func isAbout(flat, last, part string) bool {
	if slices.Contains(harmless, last) {
		return true
	}
	for _, end := range harmless {
		if last == flat && strings.HasSuffix(flat, part+end) {
			return true
		}
	}
	return false
}

// plain returns a name without separators, in lower case, and the last word of it. Words
// are separated by anything but letters and digits, and begin with a capital letter after
// a small one. Digits that end a name do not count.
func plain(room []byte, name string) (flat, last string) {
	end := len(name)
	for end > 0 && !isLetter(name[end-1]) {
		end--
	}
	begin, small, gap := 0, false, false
	for i := range end {
		c := name[i]
		capital := c >= 'A' && c <= 'Z'
		switch {
		case !isLetter(c) && (c < '0' || c > '9'):
			gap, small = true, false
			continue
		case gap, capital && small:
			begin = len(room)
		}
		gap, small = false, !capital
		if capital {
			c |= 0x20
		}
		room = append(room, c)
	}
	flat = string(room)
	return flat, flat[begin:]
}
