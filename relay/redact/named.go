package redact

import "strings"

// Values with names, as in name=value, name: value, "name": "value", are searched for
// by hand: an expression would look at the rest of the text once for each name. Here
// each byte is looked at a fixed number of times: what stands between two separators
// belongs to one of them, and what is a value is not searched for names if it is hidden.

// hideNamed hides the values of sensitive names. A value that is no secret may have one
// in itself, as in header=authorization: x, so it is searched, too.
func hideNamed(s string) string {
	var b strings.Builder
	written, from := 0, 0 // what is in b, and where the search goes on
	for {
		at := nextSeparator(s, from)
		if at < 0 {
			break
		}
		name, start := nameBefore(s, from, at)
		from = at + 1
		isPath := start > 0 && s[start-1] == '/' && s[at] != '=' // as in /run/token: no such file
		if name == "" || name == "pass" || isPath || !Sensitive(name) {
			continue // pass is a word, too, and a field of the configuration
		}
		for from < len(s) && (isSpace(s[from]) || isSeparator(s[from]) || s[from] == '>') { // as in := and =>
			from++
		}
		end, mark := valueAt(s, at, from, name)
		if end == from {
			continue
		}
		b.WriteString(s[written:from])
		b.WriteString(mark)
		written, from = end, end
	}
	if written == 0 {
		return s
	}
	b.WriteString(s[written:])
	return b.String()
}

func isSeparator(c byte) bool { return c == ':' || c == '=' }

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isOfName(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
}

func nextSeparator(s string, from int) int {
	for i := from; i < len(s); i++ {
		if isSeparator(s[i]) {
			return i
		}
	}
	return -1
}

// maxName bounds a name in a text, in bytes.
const maxName = 81

// nameBefore returns the name that a separator ends, which may be in quotes, and where
// it starts, but not what is before from; empty if there is none. A name that is only
// "key" is returned with the word before it.
func nameBefore(s string, from, separator int) (name string, start int) {
	end := separator
	for end > from && isSpace(s[end-1]) {
		end--
	}
	if end > from && (s[end-1] == '"' || s[end-1] == '\'') {
		end--
	}
	for end > from && s[end-1] == '\\' {
		end--
	}
	start = wordBefore(s, from, end)
	if strings.EqualFold(s[start:end], "key") && start-1 > from && s[start-1] == ' ' {
		start = wordBefore(s, from, start-1)
	}
	return s[start:end], start
}

// wordBefore returns where the name starts that ends at end.
func wordBefore(s string, from, end int) int {
	start := end
	for start > max(from, end-maxName) && isOfName(s[start-1]) {
		start--
	}
	for start < end && !isLetter(s[start]) {
		start++
	}
	return start
}

// valueAt returns where the value ends that begins at from, and what is shown instead.
// It ends at from if there is none.
func valueAt(s string, separator, from int, name string) (end int, mark string) {
	if from == len(s) {
		return from, ""
	}
	quote := from
	for quote < len(s) && s[quote] == '\\' {
		quote++
	}
	lower := strings.ToLower(name)
	switch {
	case quote < len(s) && (s[quote] == '"' || s[quote] == '\''):
		opening := s[from : quote+1]
		return quoteEnd(s, quote), opening + Mark + opening
	case s[from] == '[' || s[from] == '{':
		return bracketEnd(s, from), Mark
	case s[from] == '|' || s[from] == '>': // a YAML block, of as many lines as are indented
		return len(s), Mark
	case strings.Contains(s[separator:from], "\n"), strings.HasSuffix(lower, "cookie"):
		return from + lineEnd(s[from:]), Mark
	}
	end = from + unquotedEnd(s[from:])
	// The scheme of an Authorization header comes before what is secret.
	if next := end + 1; strings.HasSuffix(lower, "authorization") && next < len(s) && s[end] == ' ' {
		if strings.HasPrefix(s[next:], Mark) { // as found by its form
			return next + len(Mark), Mark + " " + Mark
		}
		if n := unquotedEnd(s[next:]); n > 0 {
			return next + n, Mark + " " + Mark
		}
	}
	return end, Mark
}

// quoteEnd returns where the text ends that begins with a quote. A quote that is itself
// quoted, as in JSON in JSON, has backslashes before it; that which ends it has as many,
// without those that are pairs of its own level.
func quoteEnd(s string, quote int) int {
	level := 0
	for at := quote; at > 0 && s[at-1] == '\\'; at-- {
		level++
	}
	slashes := 0
	for i := quote + 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			slashes++
			continue
		case s[i] == s[quote] && slashes%(2*(level+1)) == level:
			return i + 1
		}
		slashes = 0
	}
	return len(s)
}

// bracketEnd returns where a list or an object ends.
func bracketEnd(s string, from int) int {
	depth := 0
	for i := from; i < len(s); i++ {
		switch s[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			i = quoteEnd(s, i) - 1
		}
	}
	return len(s)
}

func unquotedEnd(s string) int {
	for i := range len(s) {
		if isSpace(s[i]) || strings.IndexByte("\"',;&)}]", s[i]) >= 0 {
			return i
		}
	}
	return len(s)
}

func lineEnd(s string) int {
	if end := strings.IndexAny(s, "\r\n\"'"); end >= 0 {
		return end
	}
	return len(s)
}
