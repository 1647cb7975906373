package main

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"xdsrelay/relay/admin"
)

// The output contains names and reasons from clients, and texts from control planes. None of them may
// reach a terminal as a control sequence or as an invisible character.

// printable makes a text safe for a terminal and for a line of a table.
func printable(s string) string { return admin.Printable(s) }

// printableLines makes a text of several lines safe for a terminal.
func printableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// printableJSON makes JSON safe for a terminal without changing its meaning: only texts contain
// unprintable characters, and there they can be escaped.
func printableJSON(text []byte) []byte {
	if bytes.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var b bytes.Buffer
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case !unprintable(r):
			b.Write(text[:n])
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[n:]
	}
	return b.Bytes()
}

func unprintable(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// toYAML converts JSON to YAML that is safe for a terminal. If a text in it has unprintable characters,
// it returns the JSON, which is valid YAML.
func toYAML(text []byte) ([]byte, error) {
	out, err := yaml.JSONToYAML(text)
	if err == nil && bytes.IndexFunc(out, unprintable) >= 0 {
		return append(printableJSON(text), '\n'), nil
	}
	return out, err
}
