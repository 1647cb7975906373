package report

import (
	"math"
	"slices"
)

// plotData is what the page's script draws.
type plotData struct {
	Targets []string    `json:"targets"`
	Cases   []casePlots `json:"cases"`
}

type casePlots struct {
	Curves []curvePlot `json:"curves"`
	// CPU and RSS have, for each target, times and values.
	CPU [][2][]float64 `json:"cpu"`
	RSS [][2][]float64 `json:"rss"`
}

// curvePlot is the latency of a step: for each target its values at the
// percentiles, in milliseconds, nil where there is none.
type curvePlot struct {
	Step        string       `json:"step"`
	What        string       `json:"what"`
	Percentiles []float64    `json:"percentiles"`
	Values      [][]*float64 `json:"values"`
}

// Percentiles are those at which the curve of a [Latency] is taken, so that
// curves can be compared point by point.
func Percentiles() []float64 {
	return []float64{0, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 96, 97, 98, 98.5, 99, 99.3, 99.5, 99.7,
		99.8, 99.9, 99.95, 99.97, 99.99, 99.999}
}

// plots takes, for each case and target, the run whose figures are drawn: the
// first that did not fail.
func (r *Result) plots() plotData {
	data := plotData{Targets: r.Targets, Cases: []casePlots{}}
	for i := range r.Cases {
		c := &r.Cases[i]
		plots := casePlots{Curves: []curvePlot{}}
		runs := make([]*Run, len(r.Targets))
		for t, target := range r.Targets {
			runs[t] = c.typical(target)
			cpu, rss := [2][]float64{{}, {}}, [2][]float64{{}, {}}
			if runs[t] != nil {
				for _, s := range runs[t].Samples {
					at := math.Round(s.At*100) / 100
					cpu[0], cpu[1] = append(cpu[0], at), append(cpu[1], math.Round(s.CPU*1000)/1000)
					rss[0], rss[1] = append(rss[0], at), append(rss[1], math.Round(float64(s.RSS)/(1<<20)*10)/10)
				}
			}
			plots.CPU, plots.RSS = append(plots.CPU, cpu), append(plots.RSS, rss)
		}
		for _, name := range stepNames(runs) {
			if curve, ok := newCurve(runs, name); ok {
				plots.Curves = append(plots.Curves, curve)
			}
		}
		data.Cases = append(data.Cases, plots)
	}
	return data
}

// typical returns the run of a target to draw; nil if there is none.
func (c *Case) typical(target string) *Run {
	i := slices.IndexFunc(c.Runs, func(r Run) bool { return r.Target == target && r.Error == "" })
	if i < 0 {
		i = slices.IndexFunc(c.Runs, func(r Run) bool { return r.Target == target })
	}
	if i < 0 {
		return nil
	}
	return &c.Runs[i]
}

// stepNames lists the steps of all runs, each once.
func stepNames(runs []*Run) (names []string) {
	for _, run := range runs {
		if run == nil {
			continue
		}
		for _, s := range run.Steps {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// newCurve collects a step's latency; false means that no run has it.
func newCurve(runs []*Run, step string) (curvePlot, bool) {
	curve := curvePlot{Step: step, What: "time to sync", Percentiles: Percentiles()}
	found := false
	for _, run := range runs {
		values := make([]*float64, len(curve.Percentiles))
		if run != nil {
			for _, s := range run.Steps {
				if s.Name != step || s.Latency == nil {
					continue
				}
				if s.Kind == Change {
					curve.What = "propagation"
				}
				for _, p := range s.Latency.Curve {
					if i := slices.Index(curve.Percentiles, p.Percentile); i >= 0 && p.Value > 0 {
						values[i], found = &p.Value, true
					}
				}
			}
		}
		curve.Values = append(curve.Values, values)
	}
	return curve, found
}
