package config

import (
	"strings"
	"testing"
)

// TestManyDocuments: a file of very many YAML documents is refused before it is parsed, which
// would take seconds, at the line with one too many; a few marks harm nobody.
func TestManyDocuments(t *testing.T) {
	mark := func(n int) *decoder {
		return decodeFile("f", []byte("log: {}\n"+strings.Repeat("---\n", n)), Default())
	}
	if err := mark(8).err(); err != nil {
		t.Errorf("8 marks: %v", err)
	}
	d := mark(9)
	if len(d.problems) != 1 || !d.unread || d.problems[0].Line != 10 || !strings.Contains(d.problems[0].Message, "expected one") {
		t.Errorf("9 marks: %+v, expected one problem, at line 10", d.problems)
	}
}

// TestDeepNesting holds that a small file cannot exhaust the memory by its nesting.
func TestDeepNesting(t *testing.T) {
	d := decodeFile("f", []byte("log: {}\nrest: "+strings.Repeat("[", 100_000)), Default())
	if len(d.problems) != 1 || !d.unread || d.problems[0].Line != 2 || !strings.Contains(d.problems[0].Message, "nested") {
		t.Errorf("%+v, expected one problem, at line 2", d.problems)
	}
}
