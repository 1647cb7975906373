package admin

import (
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// widest is how wide a column becomes at most, in columns of a terminal. What is longer
// moves the rest of its own line, and not that of all others: a name may have hundreds
// of characters.
const widest = 64

// WriteTable writes rows as aligned columns, the first row being the header. Cells hold
// what clients and control planes chose, so only printable characters pass; an empty one
// is a dash.
func WriteTable(w io.Writer, rows [][]string) {
	var widths []int
	cells := make([][]string, len(rows))
	for y, row := range rows {
		for x, cell := range row {
			if cell = Printable(cell); cell == "" {
				cell = "-"
			}
			cells[y] = append(cells[y], cell)
			if x == len(widths) {
				widths = append(widths, 0)
			}
			if n := widthOf(cell); n <= widest {
				widths[x] = max(widths[x], n)
			}
		}
	}
	for _, row := range cells {
		var line strings.Builder
		for x, cell := range row {
			line.WriteString(cell)
			if x < len(row)-1 {
				line.WriteString(strings.Repeat(" ", max(0, widths[x]-widthOf(cell))+2))
			}
		}
		writeText(w, line.String()+"\n")
	}
}

// widthOf is how many columns of a terminal a text takes: letters of East Asia and
// pictures take two, marks on other letters none.
func widthOf(text string) (n int) {
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.Is(unicode.Mn, r):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}
