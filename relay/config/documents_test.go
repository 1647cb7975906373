package config

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestManyMistakes: reading a file takes time in proportion to its mistakes, however many
// these are: eight times as many take far less than the square of that.
func TestManyMistakes(t *testing.T) {
	cost := func(n int) time.Duration {
		file := []byte("listeners: [" + strings.Repeat(`"", `, n) + "]\n")
		best := time.Hour
		for range 3 {
			began := time.Now()
			cfg := Default()
			d := decodeFile("f", file, cfg)
			d.check(cfg)
			best = min(best, time.Since(began))
			if len(d.problems) < n {
				t.Fatalf("%d problems, expected at least %d", len(d.problems), n)
			}
		}
		return best
	}
	few, many := cost(1_000), cost(8_000)
	if many > 24*few {
		t.Errorf("1,000 mistakes take %v, and 8,000 take %v", few, many)
	}
}

// TestFieldsAround: what follows from a field that could not be read is found as by comparing
// each field with each.
func TestFieldsAround(t *testing.T) {
	paths := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a.b", "a.b.c", "a.bc", "ab", "a[0]", "a[0].b", "a[01]", "a[0][1]", "b[1]"}), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		failed, around := paths.Draw(t, "failed"), make(fieldsAround)
		for _, f := range failed {
			around.add(f)
		}
		for _, p := range paths.Draw(t, "others") {
			want := false
			for _, f := range failed {
				want = want || within(p, f) || within(f, p)
			}
			if got := around.touch(p); got != want {
				t.Errorf("%q with %q: %t, expected %t", p, failed, got, want)
			}
		}
	})
}

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
