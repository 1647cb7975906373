package transitiontest

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Legend is what the cells of a page mean.
const Legend = "In a cell, – means that the state does not change, and an empty cell that the event is illegal: it panics in builds with the race detector. The effects follow the state."

// Page is a page in docs/internals that is made of a table.
type Page struct {
	strings.Builder
	path string // of the file
	of   string // folder of the package
}

// NewPage begins the page of a package of this module, such as upstream/quarantine, with a title and
// an introduction. name is its file in docs/internals.
func NewPage(name, of, title, introduction string) *Page {
	p := &Page{path: strings.Repeat("../", strings.Count(of, "/")+1) + "docs/internals/" + name, of: of}
	fmt.Fprintf(p, "<!-- Made from the code by go test ./%s -args -update. -->\n\n# %s\n\n%s\n", of, title, introduction)
	return p
}

// List adds a section of names with what they mean. head has the two heads of its columns.
func (p *Page) List(title, head string, names, meanings []string) {
	fmt.Fprintf(p, "\n## %s\n\n| %s |\n|---|---|\n", title, head)
	for i, name := range names {
		fmt.Fprintf(p, "| %s | %s |\n", name, meanings[i])
	}
}

// Grid adds a section with a cell for each state and column.
func Grid[S fmt.Stringer](p *Page, title string, columns []string, states []S, cell func(s S, column int) string) {
	fmt.Fprintf(p, "\n## %s\n\n| State | %s |\n|---|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, s := range states {
		fmt.Fprintf(p, "| %v |", s)
		for i := range columns {
			fmt.Fprintf(p, " %s |", cell(s, i))
		}
		p.WriteString("\n")
	}
}

// Grid adds a section with the cells of some events in all states that can be reached. Events that
// are illegal in all of them are left out.
func (m *Machine[S, E, O, M]) Grid(p *Page, title string, events ...E) {
	live := m.Live()
	events = slices.DeleteFunc(events, func(e E) bool {
		return !slices.ContainsFunc(live, func(s S) bool { return m.Table.Cell(e, m.Number(s)).Legal })
	})
	columns := make([]string, len(events))
	for i, e := range events {
		columns[i] = e.String()
	}
	Grid(p, title, columns, live, func(s S, i int) string {
		c := m.Table.Cell(events[i], m.Number(s))
		if !c.Legal {
			return ""
		}
		text := c.To.String()
		if c.To == s {
			text = "–"
		}
		if names := m.bits(c.Output); len(names) > 0 {
			text += ": " + strings.Join(names, ", ")
		}
		return text
	})
}

// Compare returns an error if the file does not have the page. With update it writes the file instead.
func (p *Page) Compare(update bool) error {
	if update {
		return os.WriteFile(p.path, []byte(p.String()), 0o644)
	}
	if was, err := os.ReadFile(p.path); err != nil {
		return err
	} else if string(was) != p.String() {
		return fmt.Errorf("%s is out of date: run go test ./%s -args -update", p.path, p.of)
	}
	return nil
}
