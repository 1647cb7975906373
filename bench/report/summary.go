package report

import (
	"slices"
)

// Summary is a result over its rounds.
type Summary struct {
	Reference string        `json:"reference"`
	Targets   []string      `json:"targets"`
	Cases     []CaseSummary `json:"cases"`
	Verdicts  []Verdict     `json:"verdicts"`
	// Problems are what went wrong in single runs.
	Problems []string `json:"problems,omitempty"`
}

// CaseSummary is one setup over its rounds.
type CaseSummary struct {
	Name string `json:"name"`
	Rows []Row  `json:"rows"`

	setup Setup
}

// Row is a metric of a step, for each target.
type Row struct {
	Step  string `json:"step"`
	Kind  string `json:"kind"`
	Cells []Cell `json:"cells"` // in the order of the targets
	Metric
}

// Cell is a metric of one target over the rounds.
type Cell struct {
	Rounds int     `json:"rounds"` // in which it was measured; 0 means not at all
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// Ratio is the median of the ratios to the reference, round by round; 0 where
	// there is none, as for the reference itself.
	Ratio    float64 `json:"ratio,omitempty"`
	RatioMin float64 `json:"ratio_min,omitempty"`
	RatioMax float64 `json:"ratio_max,omitempty"`
}

// Summarize puts the rounds together.
func (r *Result) Summarize() *Summary {
	s := &Summary{Targets: r.Targets, Cases: []CaseSummary{}}
	if len(r.Targets) > 0 {
		s.Reference = r.Targets[0]
	}
	for _, c := range r.Cases {
		s.Cases = append(s.Cases, CaseSummary{Name: c.Setup.String(), Rows: c.rows(r.Targets), setup: c.Setup})
	}
	s.Verdicts = judge(r.Scenario, s)
	s.Problems = r.problems()
	return s
}

// rows puts the runs of a case together, in the order in which the steps and
// their metrics first come.
func (c *Case) rows(targets []string) []Row {
	type place struct{ step, metric string }
	var rows []Row
	index := make(map[place]int)
	values := make(map[place]map[string]map[int]float64) // by target and round
	for _, run := range c.Runs {
		for _, step := range run.Steps {
			for _, v := range step.values(c.Setup, &run) {
				at := place{step.Name, v.Key}
				if _, ok := index[at]; !ok {
					index[at] = len(rows)
					rows = append(rows, Row{Step: step.Name, Kind: step.Kind, Metric: v.Metric})
					values[at] = make(map[string]map[int]float64)
				}
				if values[at][run.Target] == nil {
					values[at][run.Target] = make(map[int]float64)
				}
				values[at][run.Target][run.Round] = v.V
			}
		}
	}
	for at, i := range index {
		reference := values[at][targets[0]]
		for t, target := range targets {
			cell := newCell(values[at][target], reference)
			if t == 0 || !rows[i].Cost {
				cell.Ratio, cell.RatioMin, cell.RatioMax = 0, 0, 0
			}
			rows[i].Cells = append(rows[i].Cells, cell)
		}
	}
	// A step that not every target got as far as may have come out of order.
	slices.SortStableFunc(rows, func(a, b Row) int { return c.stepIndex(a.Step) - c.stepIndex(b.Step) })
	return rows
}

// stepIndex is the place of a step in the longest run.
func (c *Case) stepIndex(name string) int {
	longest := slices.MaxFunc(c.Runs, func(a, b Run) int { return len(a.Steps) - len(b.Steps) })
	return slices.IndexFunc(longest.Steps, func(s Step) bool { return s.Name == name })
}

func newCell(byRound, reference map[int]float64) Cell {
	var values, ratios []float64
	for round, v := range byRound {
		values = append(values, v)
		if ref := reference[round]; ref > 0 && v > 0 {
			ratios = append(ratios, v/ref)
		}
	}
	cell := Cell{Rounds: len(values)}
	cell.Median, cell.Min, cell.Max = spread(values)
	cell.Ratio, cell.RatioMin, cell.RatioMax = spread(ratios)
	return cell
}

// spread returns the median, the least and the greatest; zeros of none.
func spread(values []float64) (median, least, most float64) {
	n := len(values)
	if n == 0 {
		return 0, 0, 0
	}
	slices.Sort(values)
	return (values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]
}

// cell finds a metric of a target; nil means that it was not measured.
func (c *CaseSummary) cell(targets []string, target, step, metric string) (*Cell, Unit) {
	t := slices.Index(targets, target)
	for i := range c.Rows {
		if row := &c.Rows[i]; t >= 0 && row.Step == step && row.Key == metric && row.Cells[t].Rounds > 0 {
			return &row.Cells[t], row.Unit
		}
	}
	return nil, Count
}
