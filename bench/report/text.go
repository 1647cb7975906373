package report

import (
	"fmt"
	"strings"
)

// Text is the summary for a terminal.
func (r *Result) Text() string {
	return r.write(style{
		title: func(s string) string { return s + "\n" },
		case_: func(s string) string { return "\n" + s + "\n" },
		list:  "  ",
		table: (*grid).text,
	})
}

// Markdown is the summary as a page.
func (r *Result) Markdown() string {
	return r.write(style{
		title: func(s string) string { return "# " + s + "\n\n" },
		case_: func(s string) string { return "\n## " + s + "\n\n" },
		list:  "- ",
		table: (*grid).markdown,
	})
}

// style is how the parts of a report are written.
type style struct {
	title, case_ func(string) string
	list         string
	table        func(*grid, *strings.Builder)
}

func (r *Result) write(as style) string {
	s := r.Summarize()
	var b strings.Builder
	b.WriteString(as.title(r.Scenario + ": " + r.Answers))
	fmt.Fprintf(&b, "%s\n", r.Machine.String())
	if r.Rounds > 1 {
		fmt.Fprintf(&b, "\nMedians of %d rounds (least – most)", r.Rounds)
	} else {
		b.WriteString("\nOne round")
	}
	if len(s.Targets) > 1 {
		fmt.Fprintf(&b, ", and the ratio to %s", s.Reference)
	}
	fmt.Fprintf(&b, ". Repeat it with `%s`.\n", r.Command)
	for _, c := range s.Cases {
		b.WriteString(as.case_(c.Name))
		g := &grid{head: append([]string{""}, s.Targets...)}
		for i, row := range c.Rows {
			if i == 0 || c.Rows[i-1].Step != row.Step {
				g.add(append([]string{strings.ToUpper(row.Step)}, make([]string, len(s.Targets))...)...)
			}
			line := []string{row.Label}
			for _, cell := range row.Cells {
				line = append(line, cell.String(row.Unit))
			}
			g.add(line...)
		}
		as.table(g, &b)
	}
	if len(s.Verdicts) > 0 {
		b.WriteString(as.case_("What the relay is meant to reach"))
		g := &grid{head: []string{"", "case", "limit", "measured", ""}}
		for _, v := range s.Verdicts {
			g.add(v.What, v.Case, "≤ "+v.Limit, v.Measured, v.Word())
		}
		as.table(g, &b)
	}
	if len(s.Problems) > 0 {
		b.WriteString(as.case_("Problems"))
		for _, p := range s.Problems {
			b.WriteString(as.list + p + "\n")
		}
	}
	return b.String()
}

// Word says whether the budget is kept.
func (v Verdict) Word() string {
	if v.Met {
		return "met"
	}
	return "MISSED"
}

// String writes a cell with its spread and ratio.
func (c Cell) String(unit Unit) string {
	if c.Rounds == 0 {
		return "–"
	}
	s := unit.Format(c.Median)
	if c.Min != c.Max {
		s += fmt.Sprintf(" (%s – %s)", strings.TrimSuffix(unit.Format(c.Min), " "+string(unit)),
			strings.TrimSuffix(unit.Format(c.Max), " "+string(unit)))
	}
	if c.Ratio > 0 {
		s += " " + Ratio(c.Ratio)
	}
	return s
}

// Ratio writes a ratio.
func Ratio(v float64) string { return digits(v) + "×" }
