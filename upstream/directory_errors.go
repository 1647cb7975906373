package upstream

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"xdsrelay/relay/yamlpos"
)

// Libraries quote input that they cannot parse. Only the position and the kind of their errors are
// used: errors are logged and shown on the admin port, where no secret of a file may appear.
var (
	protoPosition = regexp.MustCompile(`\(line (\d+):(\d+)\)`)
	// protoValue matches the beginning of an error whose field name is from the descriptor.
	protoValue = regexp.MustCompile(`(?:^|\): |proto:[\s\x{a0}]+)invalid value for (\w+) (?:field (\w+)|type|key):`)
)

// withoutContent returns an error of a library without quoted input. It is a *yamlpos.Error if the
// library reports a position; nil for nil.
func withoutContent(err error) error {
	if err == nil {
		return nil
	}
	msg := err.Error()
	at := protoPosition.FindStringSubmatch(msg)
	if at == nil {
		return errors.New(kindOf(msg))
	}
	p := &yamlpos.Error{Message: kindOf(msg)}
	p.Line, _ = strconv.Atoi(at[1])
	p.Column, _ = strconv.Atoi(at[2])
	return p
}

// kinds maps parts of error texts to kinds of errors; the first match counts. Quoted input may
// select a wrong kind, but it never appears in the result.
var kinds = []struct{ contains, kind string }{
	{"unable to resolve", "a message type that this program does not know can be given in a binary file only"},
	{"unknown field", "an unknown field"},
	{"unknown map entry", "an unknown field of a map entry"},
	{"google.protobuf.Duration", `not a duration, expected seconds like "1.5s"`},
	{"google.protobuf.Timestamp", `not a timestamp, expected one like "2006-01-02T15:04:05Z"`},
	{"google.protobuf.FieldMask", "not a field mask, expected paths like a.b"},
	{"google.protobuf.Value", "not a value of JSON"},
	{"@type", `the field "@type" is wrong, expected it once with the type URL of the message`},
	{"duplicate map key", "a key of a map is set twice"},
	{"duplicate", "a field is set twice"},
	{"already set", "two fields of which only one may be set"},
	{"is repeated", "a field is set twice"},
	{"cannot be repeated", "a field is set twice"},
	{"already defined", "a key of a mapping is set twice"},
	{"recursion depth", "nested too deep"},
	{"missing field separator", `a ":" is missing after the name of a field`},
	{`missing ":"`, `a ":" is missing after the name of a field`},
	{"escape", "an unknown escape sequence in a string"},
	{"UTF-8", "a text is not valid UTF-8"},
	{"unexpected EOF", "the end is missing"},
	{"unexpected token", "an unexpected token"},
	// Errors of resources, the most specific first.
	{"it has no name", "it has no name"},
	{"appears twice", "an earlier resource has the same name"},
	{"the body has type", "its type differs from type_url"},
	{"envelope's name", "its name differs from the name in its body"},
	{"ttl", "its ttl is out of range"},
	{"cut off or malformed", "the protobuf encoding is truncated or malformed"},
	{"cannot parse", "the protobuf encoding is truncated or malformed"},
	{"type_url is missing", "type_url is missing"},
	// Errors of YAML.
	{"must be specified", "a flow mapping or sequence is not closed, or a comma is missing in it"},
	{"end token", "a flow mapping or sequence is not closed"},
	{"is not allowed in this context", "a value or mark that is not allowed here; check the indentation"},
	{"non-map value", "a value that is no mapping; check the indentation"},
	{"unexpected key name", "text that is no key; check the indentation and the colon"},
	{"anchor", "a wrong anchor"},
	{"alias", "a wrong alias"},
	{"tab", "a tab; expected spaces for the indentation"},
	{"reserved character", "a text begins with a reserved character; put it in quotes"},
}

// kindOf returns the kind of an error text of a library.
func kindOf(msg string) string {
	if m := protoValue.FindStringSubmatch(msg); m != nil {
		if m[2] != "" {
			return fmt.Sprintf("the value does not fit the field %s, expected %s", m[2], m[1])
		}
		return "the value does not fit, expected " + m[1]
	}
	for _, k := range kinds {
		if strings.Contains(msg, k.contains) {
			return k.kind
		}
	}
	return "a syntax error"
}
