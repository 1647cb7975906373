package store

import "fmt"

// Reply is an answer of Redis. Its methods return an error if it has another type; they never
// panic.
type Reply struct {
	value any // nil, int64, string or []any
}

// IsNil reports whether the answer is nil: a name that does not exist, or nil or false from a
// script.
func (r Reply) IsNil() bool { return r.value == nil }

// Int returns the answer as a number.
func (r Reply) Int() (int64, error) {
	if n, ok := r.value.(int64); ok {
		return n, nil
	}
	return 0, r.not("a number")
}

// Text returns the answer as a string.
func (r Reply) Text() (string, error) {
	if s, ok := r.value.(string); ok {
		return s, nil
	}
	return "", r.not("a string")
}

// List returns the answer as a list.
func (r Reply) List() ([]Reply, error) {
	values, ok := r.value.([]any)
	if !ok {
		return nil, r.not("a list")
	}
	list := make([]Reply, len(values))
	for i, v := range values {
		list[i] = Reply{v}
	}
	return list, nil
}

// Texts returns the answer as a list of strings.
func (r Reply) Texts() ([]string, error) {
	list, err := r.List()
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(list))
	for i := range list {
		if texts[i], err = list[i].Text(); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return texts, nil
}

func (r Reply) not(expected string) error {
	got := "something else"
	switch r.value.(type) {
	case nil:
		got = "nothing"
	case int64:
		got = "a number"
	case string:
		got = "a string"
	case []any:
		got = "a list"
	}
	return fmt.Errorf("redis answered %s, expected %s", got, expected)
}
