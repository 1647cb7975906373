package report

import (
	"fmt"
	"strings"
)

// Drift is the table of ratios to the reference, now and in an older result of
// the same scenario: what changed, whatever the machine.
func Drift(older, newer *Result) string {
	then, now := older.Summarize(), newer.Summarize()
	g := &grid{head: []string{"", "target", "then", "now", "change"}}
	for i := range now.Cases {
		c := &now.Cases[i]
		before := then.find(c.Name)
		if before == nil {
			continue
		}
		for _, row := range c.Rows {
			for t, target := range now.Targets {
				was, _ := before.cell(then.Targets, target, row.Step, row.Key)
				is := row.Cells[t]
				if was == nil || was.Ratio == 0 || is.Ratio == 0 {
					continue
				}
				g.add(fmt.Sprintf("%s, %s: %s", c.Name, row.Step, row.Label), target, Ratio(was.Ratio), Ratio(is.Ratio),
					fmt.Sprintf("%+.0f %%", (is.Ratio/was.Ratio-1)*100))
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Ratios to %s, then (%s, commit %s) and now (commit %s)\n", now.Reference,
		older.Machine.Date.Format("2006-01-02"), older.Machine.Commit, newer.Machine.Commit)
	if len(g.rows) == 0 {
		b.WriteString("  nothing was measured in both\n")
		return b.String()
	}
	g.text(&b)
	return b.String()
}

// find returns the case of a name; nil if there is none.
func (s *Summary) find(name string) *CaseSummary {
	for i := range s.Cases {
		if s.Cases[i].Name == name {
			return &s.Cases[i]
		}
	}
	return nil
}
