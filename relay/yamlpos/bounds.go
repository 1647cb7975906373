package yamlpos

import (
	"bytes"
	"fmt"
)

const (
	maxDepth = 500 // levels of nesting; the stack of the parser grows by kilobytes with each

	// maxDocuments bounds the marks of documents, since the time of the parser grows by the
	// square of their number. Only one document counts.
	maxDocuments = 8
)

// exceeds returns the line at which a file exceeds a bound, counted from 1, and which one: 0 and
// "" for a file that may be parsed.
func exceeds(b []byte) (line int, problem string) {
	if line := tooDeep(b); line > 0 {
		return line, fmt.Sprintf("nested more than %d levels deep", maxDepth)
	}
	documents := 0
	for text := range bytes.Lines(b) {
		line++
		if bytes.HasPrefix(text, []byte("---")) || bytes.HasPrefix(text, []byte("...")) {
			if documents++; documents > maxDocuments {
				return line, "a second YAML document begins here, expected one"
			}
		}
	}
	return 0, ""
}

// tooDeep counts open brackets, and the entry marks at the beginning of a line. It may count
// too many, in strings, but never too few.
func tooDeep(b []byte) (line int) {
	line = 1
	open, marks := 0, 0
	for _, c := range b {
		switch c {
		case '\n':
			line, marks = line+1, 0
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0)
		case '-', '?', ':':
			marks++
		case ' ':
		default:
			marks = 0
		}
		if open > maxDepth || marks > maxDepth {
			return line
		}
	}
	return 0
}
