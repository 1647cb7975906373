package events

import (
	"strings"
	"unicode"
)

// expand fills a template with values:
//
//	{name}          the value
//	{name|thing}    a number of things: "1 key", "37 keys"
//	[ text {name}]  nothing if the value is empty
//
// Values are safe for a terminal: characters that cannot be printed become "?".
func expand(template string, value func(name string) string) string {
	var b strings.Builder
	for rest := template; rest != ""; {
		i := strings.IndexAny(rest, "[{")
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		closing := "}"
		if rest[i] == '[' {
			closing = "]"
		}
		inner, after, _ := strings.Cut(rest[i+1:], closing)
		if rest[i] == '[' {
			if _, placeholder, _ := strings.Cut(inner, "{"); value(nameIn(placeholder)) != "" {
				b.WriteString(expand(inner, value))
			}
		} else {
			b.WriteString(filled(inner, value))
		}
		rest = after
	}
	return b.String()
}

// nameIn is the name at the beginning of a placeholder.
func nameIn(placeholder string) string {
	if i := strings.IndexAny(placeholder, "|}"); i >= 0 {
		return placeholder[:i]
	}
	return placeholder
}

func filled(placeholder string, value func(string) string) string {
	name, thing, counts := strings.Cut(placeholder, "|")
	v := printable(value(name))
	switch {
	case !counts:
		return v
	case v == "1":
		return "1 " + thing
	}
	return v + " " + thing + "s"
}

// printable replaces characters that are not visible: names and reasons are what clients and
// control planes chose.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
