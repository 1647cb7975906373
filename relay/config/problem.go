package config

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"xdsrelay/relay/redact"
)

// Problem is one mistake in the configuration.
type Problem struct {
	// Source is where the value comes from: the name of the file, or an
	// environment variable or flag. Empty if nothing set the value.
	Source string
	// Line and Column, in characters from 1, are the place in a file; 0 where
	// there is none.
	Line, Column int
	// Field is the path of the field, like listener.address; empty where the
	// mistake is no field's.
	Field string
	// Message says what is wrong and what was expected.
	Message string

	text  string // the line at fault
	width int    // characters to mark in it
	more  string // what else is to be shown
}

// String gives the place, the field and the message, and below the line at
// fault with a mark. A password in it, as of a URL, is not shown.
func (p Problem) String() string {
	var b strings.Builder
	if p.Source != "" {
		b.WriteString(p.Source)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(redact.Text(p.Message))
	if p.Line > 0 {
		b.WriteString("\n" + p.snippet())
	}
	if p.more != "" {
		b.WriteString("\n" + redact.Text(p.more))
	}
	return b.String()
}

// snippetWidth bounds what a snippet shows of a line, in characters.
const snippetWidth = 100

// snippet shows the line with a mark below the mistake; of a long line, the
// part around it.
func (p Problem) snippet() string {
	whole := string([]rune(p.text)) // of UTF-8, as what is redacted is
	text := redact.Text(whole)
	line, at := []rune(text), p.Column-1
	at = max(min(at, len(line)), 0)
	if from := at - snippetWidth/2; from > 0 && len(line) > snippetWidth {
		line, at = line[from:], at-from
	}
	line = line[:min(len(line), snippetWidth)]
	pad := make([]rune, at)
	for i := range pad {
		pad[i] = ' '
		if line[i] == '\t' { // stays a tab, or the mark would stand elsewhere
			pad[i] = '\t'
		}
	}
	for i, r := range line {
		if r != '\t' && (r < ' ' || r == 0x7f || r == utf8.RuneError) {
			line[i] = '?' // it goes to a terminal
		}
	}
	if text != whole { // there is no telling where the mistake is in it
		return fmt.Sprintf("%5d | %s", p.Line, string(line))
	}
	mark := "^" + strings.Repeat("~", max(min(p.width, len(line)-at)-1, 0))
	return fmt.Sprintf("%5d | %s\n      | %s%s", p.Line, string(line), string(pad), mark)
}

// Error is all that is wrong with a configuration.
type Error struct {
	Problems []Problem // in the order of the file; never empty
}

// Error lists the problems, each with its place.
func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return strings.Join(texts, "\n")
}

// didYouMean suggests the known name that is nearest to a wrong one, if one is
// near enough to be what was meant.
func didYouMean(wrong string, known []string) string {
	best, d := nearest(wrong, known)
	if best == "" || d > max(len(wrong)/3, 1) {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// nearest returns the known name with the least distance to a wrong one.
func nearest(wrong string, known []string) (best string, least int) {
	for _, name := range known {
		if d := distance(strings.ToLower(wrong), strings.ToLower(name)); best == "" || d < least {
			best, least = name, d
		}
	}
	return best, least
}

// distance counts the characters to insert, delete, replace or swap to make a
// into b.
func distance(a, b string) int {
	if len(a) > 80 || len(b) > 80 {
		return max(len(a), len(b))
	}
	var last2 []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], last2[j-2]+1)
			}
		}
		last2, last = last, row
	}
	return last[len(b)]
}
