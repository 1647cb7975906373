package ops

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
)

// Near is a name, and how far it is from another.
type Near struct {
	Name     string `json:"name"`
	Distance int    `json:"distance"`
}

// Near returns the names of clients that somebody may have meant by another.
func (l Local) Near(name string) []Near {
	var all []Near
	seen := make(map[string]bool)
	for _, c := range l.Clients() {
		id := c.ID()
		if seen[id] {
			continue
		}
		seen[id] = true
		if d := distance(name, id); d >= 0 {
			all = append(all, Near{id, d})
		}
	}
	return nearest(all)
}

func nearest(all []Near) []Near {
	slices.SortFunc(all, func(a, b Near) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), strings.Compare(a.Name, b.Name))
	})
	all = slices.Compact(all)
	return all[:min(len(all), mostNear)]
}

// near asks all nodes for names that somebody may have meant.
func (f *Model) near(ctx context.Context, name string, silent []Silent) []string {
	answers, _ := AskAll[[]Near](ctx, f.nodes, askNear, url.Values{paramName: {name}}, func(node string) bool {
		return !slices.ContainsFunc(silent, func(s Silent) bool { return s.Node == node })
	})
	var names []string
	for _, n := range nearest(slices.Concat(answers...)) {
		names = append(names, n.Name)
	}
	return names
}

// maxNear bounds the names that are compared letter by letter.
const maxNear = 256

// distance is by how many letters two names differ, 0 where one is part of the other,
// and -1 where nobody would take them for the same.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a != "" && strings.Contains(b, a) || len(b) > 3 && strings.Contains(a, b) {
		return 0
	}
	if len(a) > maxNear || len(b) > maxNear {
		return -1
	}
	row := make([]int, len(b)+1) // of the table of Wagner and Fischer
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	if d := row[len(b)]; d <= max(2, len(a)/3) {
		return d
	}
	return -1
}
