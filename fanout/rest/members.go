package rest

import (
	"bytes"
	"encoding/json"
	"slices"
)

// member is a name and value in a JSON object, as in the text.
type member struct {
	name, value []byte
	whole       bool // the text continues after the value
}

// is reports whether a member has one of the names of a field.
func (m member) is(names ...string) bool {
	name := m.name
	if bytes.IndexByte(name, '\\') >= 0 { // no client escapes field names
		var text string
		if json.Unmarshal(append(append([]byte{'"'}, name...), '"'), &text) != nil {
			return false
		}
		name = []byte(text)
	}
	return slices.Contains(names, string(name))
}

// members calls each for the members of a JSON object in order, even if the text is cut off. It
// decodes nothing, and reads invalid JSON as far as possible: the decoder finds the error later.
func members(text []byte, each func(member) error) error {
	var m member
	depth, value := 0, -1 // value is the start of m's value; -1 before the colon
	end := func(at int) error {
		if value < 0 {
			return nil
		}
		m.value = bytes.TrimSpace(text[value:at])
		m.whole = at < len(text)
		value = -1
		return each(m)
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			from := i + 1
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 1 && value < 0 {
				m = member{name: text[from:min(i, len(text))]}
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return end(i)
			}
		case depth == 1 && c == ':' && value < 0:
			value = i + 1
		case depth == 1 && c == ',':
			if err := end(i); err != nil {
				return err
			}
		}
	}
	return end(len(text))
}
