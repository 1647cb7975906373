package report

import (
	"strings"
	"unicode/utf8"
)

// grid is a table of texts. Its first column is aligned to the left, the others
// to the right.
type grid struct {
	head []string
	rows [][]string
}

func (g *grid) add(row ...string) { g.rows = append(g.rows, row) }

// text is the table for a terminal, indented.
func (g *grid) text(b *strings.Builder) {
	widths := make([]int, len(g.head))
	for _, row := range append([][]string{g.head}, g.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range append([][]string{g.head}, g.rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// markdown is the table in Markdown.
func (g *grid) markdown(b *strings.Builder) {
	line := func(row []string) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	line(g.head)
	b.WriteString("|---" + strings.Repeat("|--:", len(g.head)-1) + "|\n")
	for _, row := range g.rows {
		line(row)
	}
}
