package record

import (
	"bytes"
	"fmt"
	"strconv"
)

// Stamps stand in a text field of each resource: where depends on the type, and is
// of no matter to who looks for them.
const (
	stampBegin = "stamp:"
	stampEnd   = ";"
)

// Stamp is the text that marks a resource. The key must not hold ':' or ';'.
func Stamp(key string, serial int) string {
	return fmt.Sprintf("%s%s:%d%s", stampBegin, key, serial, stampEnd)
}

// ReadStamp finds the stamp in an encoded resource; ok tells whether there is one.
func ReadStamp(body []byte) (key string, serial int, ok bool) {
	_, rest, found := bytes.Cut(body, []byte(stampBegin))
	if !found {
		return "", 0, false
	}
	text, _, ended := bytes.Cut(rest, []byte(stampEnd))
	name, number, both := bytes.Cut(text, []byte(":"))
	serial, err := strconv.Atoi(string(number))
	if !ended || !both || err != nil {
		return "", 0, false
	}
	return string(name), serial, true
}
