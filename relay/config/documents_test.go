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
	if err := mark(maxDocuments).err(); err != nil {
		t.Errorf("%d marks: %v", maxDocuments, err)
	}
	d := mark(maxDocuments + 1)
	if len(d.problems) != 1 || !d.unread || d.problems[0].Line != maxDocuments+2 || !strings.Contains(d.problems[0].Message, "expected one") {
		t.Errorf("%d marks: %+v, expected one problem, at line %d", maxDocuments+1, d.problems, maxDocuments+2)
	}
}
