package events

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SameWindow is how far apart the times may be at which two nodes record the same fact: a node
// notices within a lease that another one disappeared, and clocks differ.
const SameWindow = 30 * time.Second

// Seen is an event with all nodes that recorded it.
type Seen struct {
	Event

	// Nodes are the nodes that recorded it, sorted.
	Nodes []string `json:"nodes"`
}

// Positions say how far a reader has read: the number of the last event, by run of a node.
type Positions map[string]uint64

// has reports whether the reader has an event.
func (p Positions) has(part *Part, e *Event) bool {
	last, known := p[part.Run]
	return known && e.Seq <= last
}

// Merge joins the events of several nodes, oldest first. A fact that several nodes recorded is one
// event. It leaves out those of which the reader at read has a part: then it has the event.
func Merge(parts []Part, read Positions) []Seen {
	type entry struct {
		event *Event
		has   bool
	}
	var all []entry
	for i := range parts {
		for j := range parts[i].Events {
			e := &parts[i].Events[j]
			all = append(all, entry{e, read.has(&parts[i], e)})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(a.event.Time.Compare(b.event.Time), cmp.Compare(a.event.Node, b.event.Node), cmp.Compare(a.event.Seq, b.event.Seq))
	})
	type cluster struct {
		of  []*Event
		has bool
	}
	var clusters []*cluster
	newest := make(map[string][]*cluster) // by what is the same
	for _, one := range all {
		same := sameAs(one.event)
		i := -1
		if same != "" {
			i = slices.IndexFunc(newest[same], func(c *cluster) bool {
				return one.event.Time.Sub(c.of[0].Time) <= SameWindow && !slices.ContainsFunc(c.of, func(o *Event) bool { return o.Node == one.event.Node })
			})
		}
		if i >= 0 {
			c := newest[same][i]
			c.of, c.has = append(c.of, one.event), c.has || one.has
			continue
		}
		c := &cluster{of: []*Event{one.event}, has: one.has}
		clusters = append(clusters, c)
		if same != "" {
			open := slices.DeleteFunc(newest[same], func(o *cluster) bool { return one.event.Time.Sub(o.of[0].Time) > SameWindow })
			newest[same] = append(open, c)
		}
	}
	out := []Seen{}
	for _, c := range clusters {
		if !c.has {
			out = append(out, join(c.of))
		}
	}
	return out
}

// sameAs is what events about the same fact have in common; empty for one that no other node can
// have recorded.
func sameAs(e *Event) string {
	spec := specs[e.Kind]
	if spec == nil || spec.ownNode() {
		return ""
	}
	same := []string{string(e.Kind)}
	if spec.Combining == Single {
		same = append(same, e.Subject.Name)
	}
	for _, name := range spec.Same {
		same = append(same, e.Attributes[name])
	}
	return strings.Join(same, "\x00")
}

// join makes one event of those that several nodes recorded of a fact. The first one leads.
func join(all []*Event) Seen {
	s := Seen{Event: *all[0]}
	for _, e := range all {
		s.Nodes = append(s.Nodes, e.Node)
	}
	slices.Sort(s.Nodes)
	spec := specs[s.Kind]
	if len(all) == 1 || spec == nil {
		return s
	}
	s.Attributes = maps.Clone(s.Attributes)
	for _, e := range all[1:] {
		s.Omitted += e.Omitted
		for k, v := range e.Attributes {
			if s.Attributes[k] == "" {
				s.Attributes[k] = v
			}
		}
	}
	if spec.Combining != Single {
		s.addUp(spec, all)
	}
	s.write(spec)
	return s
}

// addUp adds up what several nodes recorded about keys.
func (s *Seen) addUp(spec *Spec, all []*Event) {
	var keys []string
	total, most, complete := 0, 0, true
	sums := make([]int, len(spec.Sums))
	for _, e := range all {
		n := e.number(attributeKeys)
		total, most, complete = total+n, max(most, n), complete && n <= len(e.Keys)
		keys = append(keys, e.Keys...)
		for i, name := range spec.Sums {
			sums[i] += e.number(name)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	n := total
	switch {
	case complete:
		n = len(keys)
	case spec.Combining == PerSharedKeys:
		n = max(most, len(keys))
	}
	s.Keys = keys[:min(len(keys), MostKeys)]
	s.Attributes[attributeKeys] = strconv.Itoa(n)
	for i, name := range spec.Sums {
		s.Attributes[name] = strconv.Itoa(sums[i])
	}
	if n > 1 {
		delete(s.Attributes, spec.Name)
		s.Subject.Name = ""
	}
}

// number is the value of an attribute that counts.
func (e *Event) number(name string) int {
	n, _ := strconv.Atoi(e.Attributes[name])
	return n
}
