package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
)

// The parts of the page. All of them go into the file, so that it needs nothing
// else.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
	//go:embed page/uplot/uPlot.iife.min.js
	plotJS string
	//go:embed page/uplot/uPlot.min.css
	plotCSS string
	//go:embed page/uplot/LICENSE
	plotLicence string
)

// HTML is the result as a page of its own, with plots.
func (r *Result) HTML() ([]byte, error) {
	s := r.Summarize()
	t, err := template.New("page").Funcs(template.FuncMap{
		"ratio": Ratio,
		"add":   func(a, b int) int { return a + b },
	}).Parse(pageHTML)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	note := "One round."
	if r.Rounds > 1 {
		note = fmt.Sprintf("Medians of %d rounds, with the least and the most.", r.Rounds)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{
		"Result": r, "Summary": s, "Note": note, "Charts": charts(s), "Data": r.plots(),
		"PlotCSS": template.CSS(plotCSS), "CSS": template.CSS(pageCSS),
		"PlotJS": template.JS("/* uPlot\n" + plotLicence + "*/\n" + plotJS), "JS": template.JS(pageJS),
	}); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return b.Bytes(), nil
}

// chart shows one metric of a step in all cases, as bars.
type chart struct {
	Title  string
	Groups []barGroup
}

type barGroup struct {
	Name string
	Bars []bar
}

type bar struct {
	Target int // its number
	Width  float64
	Text   string
}

// charted are the metrics that are worth a chart.
var charted = map[string]bool{
	CPUPerResponse: true, CPUPerClient: true, RSSPerClient: true, HeapPerClient: true, HeapPerKey: true, P99: true, CoreShare: true,
}

// charts draws the most telling metrics, in the order of the steps.
func charts(s *Summary) (out []chart) {
	seen := make(map[string]bool)
	for _, c := range s.Cases {
		for _, row := range c.Rows {
			telling := charted[row.Key] || row.Key == BytesPerClient && row.Kind == Storm
			if id := row.Step + "/" + row.Key; telling && !seen[id] {
				seen[id] = true
				out = append(out, newChart(s, row))
			}
		}
	}
	return out
}

// newChart collects the metric of a row from all cases.
func newChart(s *Summary, like Row) chart {
	c := chart{Title: like.Step + ": " + like.Label}
	most := 0.0
	for i := range s.Cases {
		for _, target := range s.Targets {
			if cell, _ := s.Cases[i].cell(s.Targets, target, like.Step, like.Key); cell != nil {
				most = max(most, cell.Median)
			}
		}
	}
	for i := range s.Cases {
		group := barGroup{Name: s.Cases[i].Name}
		for t, target := range s.Targets {
			cell, unit := s.Cases[i].cell(s.Targets, target, like.Step, like.Key)
			if cell == nil {
				continue
			}
			b := bar{Target: t, Text: unit.Format(cell.Median)}
			if most > 0 {
				b.Width = max(0, cell.Median/most*100)
			}
			if cell.Ratio > 0 {
				b.Text += " · " + Ratio(cell.Ratio)
			}
			group.Bars = append(group.Bars, b)
		}
		if len(group.Bars) > 0 {
			c.Groups = append(c.Groups, group)
		}
	}
	return c
}
