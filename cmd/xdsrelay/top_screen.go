package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"xdsrelay/relay/ops"
)

// Styles of the interactive top. A terminal without colors shows the rest.
var (
	styleBold     = lipgloss.NewStyle().Bold(true)
	styleHead     = lipgloss.NewStyle().Bold(true).Underline(true)
	styleSelected = lipgloss.NewStyle().Reverse(true)
	styleBad      = lipgloss.NewStyle().Foreground(lipgloss.Red)
	styleHelp     = lipgloss.NewStyle().Faint(true)
)

// Lines around the table: title, states, warning, tabs, head; and help below.
const topLines = 6

// tableHeight is the number of rows that the screen has room for.
func (m *topModel) tableHeight() int { return max(m.height-topLines, 1) }

// View implements [tea.Model].
func (m topModel) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen, v.WindowTitle = true, "xdsrelay top"
	return v
}

// screen is the content: exactly as many lines as the terminal has, none wider than it.
func (m *topModel) screen() string {
	lines := []string{m.title(), m.states(), m.warning(), m.tabs()}
	if m.place().query.name != "" {
		detail := m.detail()
		lines = append(lines, detail[min(m.place().offset, len(detail)):]...)
	} else {
		lines = append(lines, m.table()...)
	}
	lines = lines[:min(len(lines), m.height-1)]
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.help())
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (m *topModel) title() string {
	if m.data == nil {
		return styleBold.Render("xdsrelay top")
	}
	s := m.data.Summary
	left := fmt.Sprintf("xdsrelay top  %s  %s  %s", count(s.Clients, "client"), count(len(s.Nodes), "node"), count(len(m.data.Keys), "key"))
	at := m.data.At.Format(time.TimeOnly)
	return styleBold.Render(left) + strings.Repeat(" ", max(m.width-ansi.StringWidth(left)-len(at), 1)) + at
}

// states counts the clients by state, the worst first; without percentages where they do not fit.
func (m *topModel) states() string {
	if m.data == nil {
		return ""
	}
	line := m.counts(share)
	if ansi.StringWidth(line) > m.width {
		line = m.counts(func(part, _ int) string { return fmt.Sprint(part) })
	}
	return line
}

// counts are the states, with their numbers as number writes them.
func (m *topModel) counts(number func(part, whole int) string) string {
	var parts []string
	s := m.data.Summary
	if s.Unknown > 0 { // first, so that no part looks like the whole
		parts = append(parts, styleBad.Render(fmt.Sprintf("%d on silent nodes", s.Unknown)))
	}
	for _, state := range ops.States() {
		if n := s.States[state]; n > 0 {
			text := string(state) + " " + number(n, s.Clients)
			if stateTrouble[state] > 2 {
				text = styleBad.Render(text)
			}
			parts = append(parts, text)
		}
	}
	if s.Missing > 0 {
		parts = append(parts, "missing "+number(s.Missing, s.Clients))
	}
	return strings.Join(parts, "  ")
}

// warning is the first warning, or why there is no answer.
func (m *topModel) warning() string {
	switch {
	case m.err != nil && m.data == nil:
		return styleBad.Render(printable(m.err.Error()))
	case m.err != nil:
		return styleBad.Render(fmt.Sprintf("last answer %s ago: %s", ago(m.now, m.data.At), printable(m.err.Error())))
	case m.data == nil:
		return "waiting for an answer"
	}
	all := m.data.Nodes.Warnings
	if len(all) == 0 {
		return ""
	}
	text, more := all[0].Level+": "+printable(all[0].Text), ""
	if len(all) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(all)-1)
	}
	return styleBad.Render(ansi.Truncate(text, max(m.width-len(more), 1), "…") + more)
}

// maxScope bounds a name above the table, in columns.
const maxScope = 24

// tabs names the tables and what the current one shows.
func (m *topModel) tabs() string {
	var parts []string
	p := m.place()
	for i, t := range topTables {
		text := fmt.Sprintf("%d %s", i+1, t.title)
		if topView(i) == p.view {
			parts = append(parts, styleSelected.Render("["+text+"]"))
		} else {
			parts = append(parts, text)
		}
	}
	line := strings.Join(parts, " ")
	var of []string
	for _, one := range [][2]string{{"client", p.query.name}, {"key", p.query.key}, {"node", p.query.node}, {"reason", p.query.reason}} {
		if one[1] != "" {
			of = append(of, one[0]+" "+ansi.Truncate(printable(one[1]), maxScope, "…"))
		}
	}
	if m.typing || m.filter != "" {
		cursor := ""
		if m.typing {
			cursor = "_"
		}
		of = append(of, "filter: "+printable(m.filter)+cursor)
	}
	if p.query.name == "" {
		by := "by " + topTables[p.view].sorts[m.sorts[p.view]].name
		if m.reversed[p.view] {
			by += ", reversed"
		}
		of = append(of, by)
	}
	if rows := len(m.rows()); rows > m.tableHeight() || rows > 0 && p.view == clientsView && m.data.more {
		text := fmt.Sprintf("%d-%d of %d", p.offset+1, min(p.offset+m.tableHeight(), rows), rows)
		if p.view == clientsView && m.data.more {
			text += "+" // only a filter finds the others
		}
		of = append(of, text)
	}
	return line + "  " + strings.Join(of, "; ")
}

func (m *topModel) help() string {
	switch {
	case m.typing:
		return styleHelp.Render("type to filter  enter: keep  esc: clear")
	case m.place().query.name != "":
		return styleHelp.Render("↑↓ scroll  esc back  1-4 table  q quit")
	case len(m.places) > 1:
		return styleHelp.Render("↑↓ move  enter open  esc back  / filter  s sort  r reverse  1-4 table  q quit")
	}
	return styleHelp.Render("↑↓ move  enter open  / filter  s sort  r reverse  1-4 table  q quit")
}

// table is the head and the rows of the current table.
func (m *topModel) table() []string {
	p, rows, columns := m.place(), m.rows(), topTables[m.place().view].columns
	if len(rows) == 0 {
		return []string{"", m.nothing()}
	}
	for i := range rows {
		for j, c := range rows[i].cells {
			rows[i].cells[j] = printable(c)
		}
	}
	widths := topWidths(columns, rows, m.width)
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.title
	}
	lines := []string{styleHead.Render(topLine(columns, widths, heads))}
	last := min(p.offset+m.tableHeight(), len(rows))
	for _, r := range rows[min(p.offset, len(rows)):last] {
		line := topLine(columns, widths, r.cells)
		switch {
		case r.id == p.selected:
			line = styleSelected.Render(line)
		case r.bad:
			line = styleBad.Render(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// nothing says why a table is empty.
func (m *topModel) nothing() string {
	switch p := m.place(); {
	case m.data == nil:
		return ""
	case p.view == clientsView && m.data.query != m.query():
		return "loading"
	case m.filter != "":
		return "nothing matches the filter"
	case p.view == reasonsView:
		return "no client has rejected (NACK) the newest version"
	case p.view == keysView:
		return "no keys: no client has connected yet"
	}
	return "no clients"
}

// gap is between two columns.
const gap = 2

// topWidths are the widths of columns that fit the screen. The flexible ones share what the others
// leave, as far as they need it.
func topWidths(columns []topColumn, rows []topRow, width int) []int {
	widths := make([]int, len(columns))
	left, flexible := width-gap*(len(columns)-1), []int{}
	for i, c := range columns {
		widths[i] = ansi.StringWidth(c.title)
		for _, r := range rows {
			widths[i] = max(widths[i], ansi.StringWidth(r.cells[i]))
		}
		if c.flexible {
			flexible = append(flexible, i)
		} else {
			left -= widths[i]
		}
	}
	// The narrowest first, so that each gets what it needs or an equal share.
	slices.SortStableFunc(flexible, func(a, b int) int { return widths[a] - widths[b] })
	for n, i := range flexible {
		widths[i] = min(widths[i], max(left/(len(flexible)-n), ansi.StringWidth(columns[i].title)))
		left -= widths[i]
	}
	return widths
}

// topLine is a row with aligned columns. Wide characters count as the columns that they take.
func topLine(columns []topColumn, widths []int, cells []string) string {
	var b strings.Builder
	for i, c := range columns {
		cell := ansi.Truncate(cells[i], widths[i], "…")
		space := strings.Repeat(" ", max(widths[i]-ansi.StringWidth(cell), 0))
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		if c.right {
			b.WriteString(space + cell)
		} else {
			b.WriteString(cell + space)
		}
	}
	return b.String()
}

// detail are the lines about a client.
func (m *topModel) detail() []string {
	p := m.place()
	if m.data == nil || m.data.query != m.query() {
		return []string{"", "loading"}
	}
	for i := range m.data.clients {
		if c := &m.data.clients[i]; clientID(c) == p.client {
			var b strings.Builder
			clientDetail(&b, c, m.data.At, func(w io.Writer, rows [][]string) { foldedColumns(w, rows, m.width) })
			return wrapped(strings.TrimRight(b.String(), "\n"), m.width)
		}
	}
	return []string{"", "the client is not connected any more"}
}

// foldedColumns writes rows as [columns] does. Columns beyond the width follow in further tables,
// each of which repeats the first column.
func foldedColumns(w io.Writer, rows [][]string, width int) {
	part := func(from, to int) string {
		var some [][]string
		for _, row := range rows {
			some = append(some, slices.Concat(row[:1], row[from:to]))
		}
		var b strings.Builder
		columns(&b, some)
		return b.String()
	}
	for from, all := 1, len(rows[0]); from < all; {
		to := from + 1
		for to < all && lipgloss.Width(part(from, to+1)) <= width {
			to++
		}
		if from > 1 {
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, part(from, to))
		from = to
	}
}

// wrapped breaks sentences into lines of a width. Rows of tables, which begin with a line of
// capitals, stay lines.
func wrapped(text string, width int) (lines []string) {
	for part := range strings.SplitSeq(text, "\n\n") {
		if lines != nil {
			lines = append(lines, "")
		}
		head, _, _ := strings.Cut(part, "\n")
		if head != strings.ToUpper(head) {
			part = ansi.Wrap(part, width, "")
		}
		lines = append(lines, strings.Split(part, "\n")...)
	}
	return lines
}
