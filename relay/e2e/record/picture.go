package record

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"
)

// Sizes of the picture, in pixels.
const (
	width   = 960
	labels  = 130 // of the column with names
	margin  = 16
	top     = 76
	row     = 24
	bar     = 14
	texts   = 230 // of the column behind the bars
	plot    = width - labels - texts - 2*margin
	minimum = 2 // of a bar, so that what took no time is seen
)

// style has colours for both kinds of background, which whoever shows the picture has.
const style = `
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 11px; fill: #59636e }
  .title { font-size: 16px; font-weight: 600 }
  .back { fill: #ffffff }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .n0 { fill: #0969da } .n1 { fill: #bc4c00 } .n2 { fill: #1a7f37 } .n3 { fill: #8250df }
  .stage { opacity: .62 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .back { fill: #0d1117 }
    .grid { stroke: #3d444d }
    .n0 { fill: #4493f8 } .n1 { fill: #f0883e } .n2 { fill: #3fb950 } .n3 { fill: #ab7df8 }
  }
`

// Picture draws the trace of a root as SVG: a row for each span, in the colour of its
// node, and the times from its beginning.
func Picture(w io.Writer, spans []Span, root Span) error {
	p := &picture{spans: spans, root: root, end: root.End, colours: map[string]int{}}
	p.add(root, 0)
	for _, r := range p.rows {
		if r.End.After(p.end) {
			p.end = r.End
		}
	}
	p.draw()
	_, err := io.WriteString(w, p.b.String())
	return err
}

type picture struct {
	spans   []Span
	root    Span
	end     time.Time // of the last span
	rows    []rowOf
	nodes   []string
	colours map[string]int // of nodes
	b       strings.Builder
}

type rowOf struct {
	Span
	depth int
}

// add adds a span and what is below it: its own stages first, then other nodes.
func (p *picture) add(s Span, depth int) {
	if _, known := p.colours[s.Node]; !known {
		p.colours[s.Node] = len(p.nodes) % 4
		p.nodes = append(p.nodes, s.Node)
	}
	p.rows = append(p.rows, rowOf{s, depth})
	below := Below(p.spans, s)
	for _, own := range []bool{true, false} {
		for _, child := range below {
			if (child.Node == s.Node) == own {
				p.add(child, depth+1)
			}
		}
	}
}

func (p *picture) draw() {
	height := top + row*len(p.rows) + margin
	total := max(p.end.Sub(p.root.Start), time.Millisecond)
	at := func(t time.Time) float64 {
		return margin + labels + plot*float64(t.Sub(p.root.Start))/float64(total)
	}
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">`, width, height, width, height)
	p.printf(`<title id="t">The trace of one update through %d nodes</title>`, len(p.nodes))
	p.printf(`<desc id="d">%d spans of the nodes %s, in %s, drawn from what an OpenTelemetry Collector has received</desc>`, len(p.rows), html.EscapeString(strings.Join(p.nodes, ", ")), took(total))
	p.printf("<style>%s</style>", style)
	p.printf(`<rect class="back" width="%d" height="%d" rx="6"/>`, width, height)
	typ, _ := p.root.Attributes["xds.type"].(string)
	p.text(margin, 26, "title", "", fmt.Sprintf("One update of a %s through %d nodes", typ[strings.LastIndex(typ, ".")+1:], len(p.nodes)))
	p.text(width-margin, 26, "small", "end", "trace "+p.root.Trace)
	x := margin + labels
	for i, node := range p.nodes {
		role := "follows"
		if i == 0 {
			role = "owns the key"
		}
		p.printf(`<rect class="n%d" x="%d" y="36" width="12" height="12" rx="2"/>`, p.colours[node], x)
		p.text(float64(x+18), 46, "", "", "node "+node+" ("+role+")")
		x += 180
	}
	step := nice(total)
	for tick := time.Duration(0); tick <= total; tick += step {
		x := at(p.root.Start.Add(tick))
		p.printf(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x, top-6, x, height-margin/2)
		p.text(x, top-10, "small", "middle", took(tick))
	}
	for i, r := range p.rows {
		y := top + row*i
		p.text(float64(margin+14*r.depth), float64(y+bar), "", "", r.Name)
		class := fmt.Sprintf("n%d", p.colours[r.Node])
		if r.Name != "update" {
			class += " stage"
		}
		from, to := at(r.Start), at(r.End)
		size := math.Max(to-from, minimum)
		p.printf(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"/>`, class, from, y+2, size, bar)
		p.text(from+size+6, float64(y+bar), "small", "", took(r.End.Sub(r.Start))+about(r.Span))
	}
	p.printf("</svg>\n")
}

// about is what a picture says of a span beside its time.
func about(s Span) string {
	switch {
	case s.Name == "client":
		return fmt.Sprintf(" %v: %v", s.Attributes["xds.client"], s.Attributes["xds.answer"])
	case s.Name != "update":
		return ""
	}
	return fmt.Sprintf(" %v changed, sent to %v, %v took it", s.Attributes["xds.changes"], s.Attributes["xds.sent"], s.Attributes["xds.acks"])
}

// nice is a round time of which there are about five.
func nice(total time.Duration) time.Duration {
	for step := 100 * time.Microsecond; ; step *= 10 {
		for _, round := range []time.Duration{step, 2 * step, 5 * step} {
			if total/round <= 6 {
				return round
			}
		}
	}
}

// took is a time with three digits at most.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func (p *picture) text(x, y float64, class, anchor, text string) {
	p.printf(`<text x="%.1f" y="%.1f"`, x, y)
	if class != "" {
		p.printf(` class="%s"`, class)
	}
	if anchor != "" {
		p.printf(` text-anchor="%s"`, anchor)
	}
	p.printf(">%s</text>", html.EscapeString(text))
}

func (p *picture) printf(format string, about ...any) { fmt.Fprintf(&p.b, format, about...) }
