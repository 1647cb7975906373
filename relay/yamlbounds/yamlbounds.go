// Package yamlbounds rejects YAML that costs the parser far more than its size: the stack
// grows by kilobytes with each level of nesting, and the time by the square of the number of
// documents. Packages that parse YAML call it first.
package yamlbounds

import (
	"bytes"
	"fmt"
)

const (
	// MaxDepth is how many levels of nesting a file may have.
	MaxDepth = 500

	maxDocuments = 8 // marks of documents; only one document counts
)

// Check returns the line at which a file exceeds a bound, counted from 1, and which one: 0 and
// "" for a file that may be parsed.
func Check(b []byte) (line int, problem string) {
	if line := tooDeep(b); line > 0 {
		return line, fmt.Sprintf("nested more than %d levels deep", MaxDepth)
	}
	documents := 0
	for text := range bytes.Lines(b) {
		line++
		if bytes.HasPrefix(text, []byte("---")) || bytes.HasPrefix(text, []byte("...")) {
			if documents++; documents > maxDocuments {
				return line, "one more YAML document begins here, expected one"
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
		if open > MaxDepth || marks > MaxDepth {
			return line
		}
	}
	return 0
}
