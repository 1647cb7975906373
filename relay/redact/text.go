package redact

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxText bounds a text that [Text] returns, in bytes, without the words that say
// that the rest is missing.
const MaxText = 4 << 10

// Text returns what may be shown of a text that a client or an origin has written,
// such as why it rejects something, or an error that holds an address. It is UTF-8,
// whatever they wrote.
func Text(s string) string { return shorten(s, MaxText, "… (longer)") }

// Short is Text for a place that shows most bytes, and … where the rest is missing.
func Short(s string, most int) string { return shorten(s, min(most, MaxText), "…") }

// shorten cuts before it searches: what is not shown costs nothing. It cuts the result
// again, which may be longer by its marks.
func shorten(s string, most int, ending string) string {
	isCut := len(s) > most
	if isCut {
		s = withoutLastWord(s[:runeAt(s, most)])
	}
	s = patterns(strings.ToValidUTF8(s, "\uFFFD")) // a message cannot hold anything else
	if len(s) > most {
		isCut = true
		s = s[:runeAt(s, most)]
	}
	if isCut {
		s += ending
	}
	return s
}

// runeAt is at, or the start of the rune that at is in.
func runeAt(s string, at int) int {
	for back := range min(utf8.UTFMax, at+1) {
		if utf8.RuneStart(s[at-back]) {
			return at - back
		}
	}
	return at // no UTF-8
}

// maxWord bounds a word that is left out because it was cut. A longer one is shown,
// unless it is a URL, which hides credentials only up to its @.
const maxWord = 64

// withoutLastWord leaves out of a text that was cut the word in which it was cut. That
// may be a secret that can no longer be recognized.
func withoutLastWord(s string) string {
	at := strings.LastIndexAny(s, " \t\r\n\"'") + 1
	if word := s[at:]; len(word) > maxWord {
		if scheme := strings.LastIndex(word, "://"); scheme >= 0 {
			return s[:at+scheme+len("://")]
		}
		at = runeAt(s, len(s)-maxWord)
	}
	return s[:at]
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

// patterns hides what has the form of a secret. It takes time in proportion to the text.
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
	return hideNamed(s)
}
