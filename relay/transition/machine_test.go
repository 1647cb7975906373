package transition_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"xdsrelay/relay/transition/transitiontest"
)

// TestMistakes holds which mistakes in rows are found, and that a message names the machine, the
// event and the state or the row.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(r []row) []row
		want   []string
	}{
		{"none", func(r []row) []row { return r }, nil},
		{"a row that matches no state", func(r []row) []row { return append(r, row{on: turn, open: 1 << 7}) },
			[]string{"door: row 4 (turn) matches no state"}},
		{"a row that matches no state that can be reached", func(r []row) []row { return append(r, row{on: turn, open: yes, locked: yes}) },
			[]string{"door: row 4 (turn) matches no state that can be reached"}},
		{"two rows that match a cell", func(r []row) []row { return append(r, r[2]) },
			[]string{"door: rows 2 and 4 both match turn while shut"}},
		{"a missing cell", func(r []row) []row { return slices.Delete(r, 3, 4) },
			[]string{"door: turn while shut locked is possible, and no row matches it"}},
		{"a cell too many", func(r []row) []row { r[2].open = 0; return r },
			[]string{"door: turn while open is impossible, and leads to open locked"}},
		{"another state", func(r []row) []row { r[1].to.open = 1; return r },
			[]string{"door: push while shut locked leads to open locked, expected shut locked"}},
		{"another output", func(r []row) []row { r[1].output = click; return r },
			[]string{`door: push while shut locked has the output ["click"], expected []`}},
		{"a state that cannot be reached", func(r []row) []row { r[2].to.locked = 0; return r },
			[]string{"door: turn while shut leads to shut, expected shut locked",
				"door: row 1 (push) matches no state that can be reached", "door: row 3 (turn) matches no state that can be reached"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := machineOf(tc.change(rows()))
			var got []string
			for _, err := range append([]error{m.Agrees(m.Table)}, m.Rows()...) {
				if err != nil {
					got = append(got, err.Error())
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got\n\t%s\nexpected\n\t%s", strings.Join(got, "\n\t"), strings.Join(tc.want, "\n\t"))
			}
		})
	}
}

// TestNumbers holds that states are found whose number is not that of the table.
func TestNumbers(t *testing.T) {
	m := machineOf(rows())
	m.Number = func(d door) int { return int(d.locked)*2 + int(d.open) }
	if got := fmt.Sprint(m.Rows()[:2]); got != "[door: shut locked has the number 2, expected 1 door: open has the number 1, expected 2]" {
		t.Errorf("got %s", got)
	}
}

// TestMutate holds that each part of each cell is changed by itself, and that a change that goes
// unnoticed is returned.
func TestMutate(t *testing.T) {
	m := machineOf(rows())
	// Of 6 cells one is illegal. Each of the others may be illegal, and has two parts and one output.
	if mutants, unnoticed := m.Mutate(); mutants != 1+5*4 || len(unnoticed) > 0 {
		t.Errorf("%d mutants, unnoticed are %v", mutants, unnoticed)
	}
	m.Outputs = slices.Repeat(m.Outputs, 9) // the last one is no bit of a sound
	if mutants, unnoticed := m.Mutate(); mutants != 1+5*12 || len(unnoticed) != 5 {
		t.Errorf("%d mutants, unnoticed are %v", mutants, unnoticed)
	}
}

// TestPage holds what a page has, and that a file that differs is out of date.
func TestPage(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("docs/internals", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("house", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir("house")
	m := machineOf(rows())
	p := transitiontest.NewPage("door.md", "house", "Door", "A door.")
	p.List("Sounds", "Sound | Meaning", m.Outputs, []string{"the lock moves"})
	m.Grid(p, "Hands", push, turn)
	want := `<!-- Made from the code by go test ./house -args -update. -->

# Door

A door.

## Sounds

| Sound | Meaning |
|---|---|
| click | the lock moves |

## Hands

| State | push | turn |
|---|---|---|
| shut | open | shut locked: click |
| shut locked | – | shut: click |
| open | – |  |
`
	if p.String() != want {
		t.Errorf("got\n%s", p)
	}
	if p.Compare(false) == nil {
		t.Error("no error for a file that does not exist")
	}
	for _, update := range []bool{true, false} {
		if err := p.Compare(update); err != nil {
			t.Error(err)
		}
	}
	p.WriteString("more\n")
	if err := p.Compare(false); err == nil || !strings.Contains(err.Error(), "run go test ./house -args -update") {
		t.Errorf("got %v for a file that differs", err)
	}
}
