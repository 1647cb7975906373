// Package record reads what an OpenTelemetry Collector has written to files, and draws a
// picture of a trace in it.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Span is one of a trace.
type Span struct {
	// Trace, ID and Parent are hexadecimal digits; Parent is empty at the root.
	Trace, ID, Parent string
	// Node is the node that has sent it, and Name what it is of.
	Node, Name string
	Start, End time.Time
	// Attributes are texts, int64s and bools.
	Attributes map[string]any
}

// Metrics are the names of metrics that have come, by node.
type Metrics map[string]map[string]bool

// line is one of the files: one request in OTLP's JSON. What this package does not look
// at is left out.
type line struct {
	ResourceSpans []struct {
		Resource   resource `json:"resource"`
		ScopeSpans []struct {
			Spans []span `json:"spans"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
	ResourceMetrics []struct {
		Resource     resource `json:"resource"`
		ScopeMetrics []struct {
			Metrics []struct {
				Name string `json:"name"`
			} `json:"metrics"`
		} `json:"scopeMetrics"`
	} `json:"resourceMetrics"`
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

func (r resource) node() string {
	name, _ := valuesOf(r.Attributes)["service.instance.id"].(string)
	return name
}

type span struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	Parent     string      `json:"parentSpanId"`
	Name       string      `json:"name"`
	Start      nanoseconds `json:"startTimeUnixNano"`
	End        nanoseconds `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes"`
}

// nanoseconds are since 1970; OTLP's JSON has them as a text.
type nanoseconds struct{ time.Time }

func (n *nanoseconds) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("a time: %w", err)
	}
	since, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("a time: %w", err)
	}
	n.Time = time.Unix(0, since)
	return nil
}

type attribute struct {
	Key   string `json:"key"`
	Value struct {
		Text   *string `json:"stringValue"`
		Number *string `json:"intValue"`
		Bool   *bool   `json:"boolValue"`
	} `json:"value"`
}

func valuesOf(all []attribute) map[string]any {
	values := make(map[string]any, len(all))
	for _, a := range all {
		switch v := a.Value; {
		case v.Text != nil:
			values[a.Key] = *v.Text
		case v.Bool != nil:
			values[a.Key] = *v.Bool
		case v.Number != nil:
			if n, err := strconv.ParseInt(*v.Number, 10, 64); err == nil {
				values[a.Key] = n
			}
		}
	}
	return values
}

// Read reads what the collector has written. An end in the middle of a request is where
// it is at: that comes later.
func Read(r io.Reader) (spans []Span, metrics Metrics, err error) {
	metrics = make(Metrics)
	lines := json.NewDecoder(r)
	for {
		var l line
		if err := lines.Decode(&l); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return spans, metrics, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("request %d of the collector's file: %w", len(spans), err)
		}
		for _, of := range l.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					spans = append(spans, Span{
						Trace: s.TraceID, ID: s.SpanID, Parent: s.Parent, Node: of.Resource.node(), Name: s.Name,
						Start: s.Start.Time, End: s.End.Time, Attributes: valuesOf(s.Attributes),
					})
				}
			}
		}
		for _, of := range l.ResourceMetrics {
			node := of.Resource.node()
			if metrics[node] == nil {
				metrics[node] = make(map[string]bool)
			}
			for _, scope := range of.ScopeMetrics {
				for _, m := range scope.Metrics {
					metrics[node][m.Name] = true
				}
			}
		}
	}
}

// Below are the spans below one, the earliest first.
func Below(spans []Span, parent Span) (below []Span) {
	for _, s := range spans {
		if s.Trace == parent.Trace && s.Parent == parent.ID {
			below = append(below, s)
		}
	}
	slices.SortStableFunc(below, func(a, b Span) int { return a.Start.Compare(b.Start) })
	return below
}

// Largest is the root of the trace of an update with the most spans of the most nodes:
// that which shows most.
func Largest(spans []Span) (root Span, ok bool) {
	most := 0
	for _, s := range spans {
		if s.Parent != "" || s.Name != "update" {
			continue
		}
		n, nodes := 0, map[string]bool{}
		for _, other := range spans {
			if other.Trace == s.Trace {
				n++
				nodes[other.Node] = true
			}
		}
		if n += 1000 * len(nodes); n > most {
			root, most, ok = s, n, true
		}
	}
	return root, ok
}
