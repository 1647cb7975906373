package yamlpos

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// JSON is the JSON form of a document with one token on each line, so that the line of an error in
// it leads back to the file.
type JSON struct {
	Text []byte

	at   []*At // of each line
	most int   // bytes of Text
}

// ToJSON converts the one document of a file to JSON. An error is an [*Error].
func ToJSON(data []byte, limits Limits) (*JSON, error) {
	root, err := Parse(data, limits)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, fail(At{}, "the file has no document")
	}
	j := &JSON{most: limits.Bytes}
	if err := j.value(root); err != nil {
		return nil, err
	}
	return j, nil
}

// Position returns the position in the file of a line of the JSON.
func (j *JSON) Position(line int) At {
	i := min(line, len(j.at)) - 1
	if i < 0 || j.at[i].Line == 0 {
		return At{Line: 1, Column: 1}
	}
	return *j.at[i]
}

// emit writes one token, which is from a position.
func (j *JSON) emit(at *At, s string) error {
	if len(j.Text)+len(s) > j.most {
		return fail(*at, "the document exceeds %s with its aliases written out", size(j.most))
	}
	j.Text = append(append(j.Text, s...), '\n')
	j.at = append(j.at, at)
	return nil
}

func (j *JSON) value(v *Value) error {
	switch v.Kind {
	case Fields:
		return j.all(v, "{", "}", len(v.Fields), func(i int, comma string) error {
			f := &v.Fields[i]
			if err := j.emit(&f.At, comma+quote(f.Name)+":"); err != nil {
				return err
			}
			return j.value(f.Value)
		})
	case List:
		return j.all(v, "[", "]", len(v.Items), func(i int, comma string) error {
			if comma != "" {
				if err := j.emit(&v.Items[i].At, comma); err != nil {
					return err
				}
			}
			return j.value(v.Items[i])
		})
	}
	s, err := v.scalar()
	if err != nil {
		return err
	}
	return j.emit(&v.At, s)
}

// all writes n items of v between two brackets.
func (j *JSON) all(v *Value, from, to string, n int, item func(i int, comma string) error) error {
	if err := j.emit(&v.At, from); err != nil {
		return err
	}
	comma := ""
	for i := range n {
		if err := item(i, comma); err != nil {
			return err
		}
		comma = ","
	}
	return j.emit(&v.At, to)
}

// scalar returns a single value as JSON.
func (v *Value) scalar() (string, error) {
	switch v.Kind {
	case Bool:
		return v.Text, nil
	case Text, Block:
		return quote(v.Text), nil
	case Int, Float:
		return v.number()
	}
	return "null", nil
}

func (v *Value) number() (string, error) {
	switch strings.ToLower(v.Text) {
	case ".inf":
		return `"Infinity"`, nil
	case "-.inf":
		return `"-Infinity"`, nil
	case ".nan":
		return `"NaN"`, nil
	}
	n := token.ToNumber(v.Text)
	if n == nil {
		return "", fail(v.At, "a number that is out of range")
	}
	if f, ok := n.Value.(float64); ok {
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return "", fail(v.At, "a number that is out of range")
		}
		return strconv.FormatFloat(f, 'g', -1, 64), nil
	}
	return fmt.Sprint(n.Value), nil
}

func quote(s string) string {
	b, _ := json.Marshal(s) // marshaling a string cannot fail
	return string(b)
}
