package redact

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxText is how long a text may be that [Text] returns, in bytes, beside the words
// that say how much is missing.
const MaxText = 4 << 10

// maxSearched is how much of a text is searched; the rest is left out before.
const maxSearched = 64 << 10

// Text returns what may be shown of a text that a client or an origin has written,
// such as why it rejects something, or an error that holds an address. It is UTF-8,
// whatever they wrote.
func Text(s string) string {
	missing := 0
	if len(s) > maxSearched {
		missing, s = len(s)-maxSearched, s[:maxSearched]
	}
	s = patterns(strings.ToValidUTF8(s, "\uFFFD")) // what is not could be written in no message
	if len(s) > MaxText {
		end := MaxText
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		missing, s = missing+len(s)-end, s[:end]
	}
	if missing > 0 {
		return s + "… (longer)"
	}
	return s
}

// Error returns what may be shown of an error; empty for nil.
func Error(err error) string {
	if err == nil {
		return ""
	}
	return Text(err.Error())
}

// pattern is a form that secrets have in texts.
type pattern struct {
	// hint has to be in a text in which the form is looked for, in lower case; a
	// search for one is much faster than the expression.
	hint string
	re   *regexp.Regexp
	with string // replaces what fits
}

var forms = []pattern{
	// A PEM block, also where its lines are escaped, or its end has been cut off.
	{"-----begin", regexp.MustCompile(`(?is)-----BEGIN [^-]{0,64}-----.*?(?:-----END [^-]{0,64}-----|$)`), Mark},
	// The credentials in a URL.
	{"://", regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.\-]*://)[^\s/?#"']*@`), "${1}" + Mark + "@"},
	// What authorises, as in a header.
	{"bearer", regexp.MustCompile(`(?i)\b(bearer\s+)[A-Za-z0-9._~+/=\-]+`), "${1}" + Mark},
	{"basic", regexp.MustCompile(`(?i)\b(basic\s+)[A-Za-z0-9+/=_\-]{8,}`), "${1}" + Mark},
	// Tokens that are known by their form: signed ones, and those of some services.
	{"eyj", regexp.MustCompile(`\beyJ[A-Za-z0-9_\-]{5,}(?:\.[A-Za-z0-9_\-]*){1,4}`), Mark},
	{"hvs.", regexp.MustCompile(`\bhvs\.[A-Za-z0-9_\-]{8,}`), Mark},
	{"gh", regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{16,}`), Mark},
}

// named is a value with its name: name=value, name: value, "name": "value".
var named = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.\-]{0,80})(\\?["']?\s*[:=]\s*)(\\"(?:[^"\\]|\\[^"])*(?:\\"|$)|"(?:[^"\\]|\\.)*(?:"|$)|'(?:[^'\\]|\\.)*(?:'|$)|[^\s"',;&)}\]]+)`)

// patterns hides what has the form of a secret.
func patterns(s string) string {
	if !strings.ContainsAny(s, ":= .-_") { // most texts are names
		return s
	}
	lower := strings.ToLower(s)
	for _, f := range forms {
		if strings.Contains(lower, f.hint) {
			s = f.re.ReplaceAllString(s, f.with)
		}
	}
	if !strings.ContainsAny(s, ":=") {
		return s
	}
	return hideNamed(s)
}

// hideNamed hides the values whose names tell. A value that is none of a secret may
// have one in itself, as in header=authorization: x, so it is looked into, too.
func hideNamed(s string) string {
	var b strings.Builder
	rest := s
	for {
		at := named.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		path := at[2] > 0 && rest[at[2]-1] == '/' && !strings.Contains(rest[at[4]:at[5]], "=") // as in /run/token: no such file
		if name := rest[at[2]:at[3]]; path || name == "pass" || !Sensitive(name) {             // pass is a word, too, and a field of the configuration
			b.WriteString(rest[:at[5]])
			rest = rest[at[5]:]
			continue
		}
		b.WriteString(rest[:at[5]])
		b.WriteString(markLike(rest[at[6]:at[7]]))
		rest = rest[at[7]:]
	}
	if b.Len() == 0 {
		return s
	}
	b.WriteString(rest)
	return b.String()
}

// markLike is a mark in the quotes of a value.
func markLike(value string) string {
	for _, quote := range []string{`\"`, `"`, `'`} {
		if strings.HasPrefix(value, quote) {
			return quote + Mark + quote
		}
	}
	return Mark
}
