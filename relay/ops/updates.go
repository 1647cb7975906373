package ops

import (
	"cmp"
	"math"
	"slices"
	"time"

	"xdsrelay/relay/cache"
)

// Update is how far an update has come with the clients of all nodes.
type Update struct {
	Key        string      `json:"key"`
	URL        string      `json:"type_url"`
	Name       string      `json:"type"`
	At         time.Time   `json:"at"`
	Generation uint64      `json:"generation"`
	Cause      cache.Cause `json:"cause,omitempty"`
	Version    string      `json:"version,omitempty"`
	Added      int         `json:"added"`
	Changed    int         `json:"changed"`
	Removed    int         `json:"removed"`

	Reached
	// P50, P99 and Last are how long it took until half of the clients that have it, 99
	// of 100, and all had it, in seconds after their nodes had it; 0 where nobody has.
	P50  float64 `json:"p50_seconds"`
	P99  float64 `json:"p99_seconds"`
	Last float64 `json:"last_seconds"`

	Nodes []NodeReached `json:"nodes"`
}

// NodeReached is how far an update has come on one node.
type NodeReached struct {
	Node string `json:"node"`
	Reached
}

// Bounds of what is told of all nodes: how many updates, and how far the times may lie
// apart at which nodes have the same one.
const (
	mostUpdates = 30
	sameUpdate  = 2.0 // seconds
)

// Updates puts together what boards of nodes tell that were asked at the same time: the
// newest updates first. Those of a key and type that came to nodes at about the same
// time count as one.
func Updates(boards [][]Progress) []Update {
	all := slices.Concat(boards...)
	slices.SortFunc(all, func(a, b Progress) int {
		return cmp.Or(cmp.Compare(a.Age, b.Age), cmp.Compare(a.Key, b.Key), cmp.Compare(a.URL, b.URL), cmp.Compare(a.Node, b.Node), cmp.Compare(b.Generation, a.Generation))
	})
	type about struct{ key, url string }
	type heap struct{ parts []Progress }
	found := make(map[about][]*heap)
	var heaps []*heap
	for _, p := range all {
		// The newest that this node has no part of: what came to one node at once may come
		// to another in two parts, and then it is the newer one that says how it stands.
		k := about{p.Key, p.URL}
		i := slices.IndexFunc(found[k], func(h *heap) bool {
			return p.Age-h.parts[0].Age <= sameUpdate && !slices.ContainsFunc(h.parts, func(o Progress) bool { return o.Node == p.Node })
		})
		if i < 0 {
			h := &heap{}
			heaps, found[k], i = append(heaps, h), append(found[k], h), len(found[k])
		}
		found[k][i].parts = append(found[k][i].parts, p)
	}
	out := []Update{}
	for _, h := range heaps[:min(len(heaps), mostUpdates)] {
		out = append(out, updateOf(h.parts))
	}
	return out
}

// updateOf adds up what nodes tell of one update.
func updateOf(parts []Progress) Update {
	lead := parts[0]
	for _, p := range parts {
		if p.Cause == cache.CauseOrigin {
			lead = p // who got it first tells what it was
		}
	}
	u := Update{
		Key: lead.Key, URL: lead.URL, Name: lead.Name, At: lead.At, Generation: lead.Generation, Cause: lead.Cause, Version: lead.Version,
		Added: lead.Added, Changed: lead.Changed, Removed: lead.Removed, Nodes: []NodeReached{},
	}
	slices.SortFunc(parts, func(a, b Progress) int { return cmp.Compare(a.Node, b.Node) })
	var took []weighed
	for _, p := range parts {
		u.add(p.Reached)
		u.Nodes = append(u.Nodes, NodeReached{p.Node, p.Reached})
		for _, seconds := range p.Took {
			took = append(took, weighed{seconds, float64(p.Acked) / float64(len(p.Took))})
		}
	}
	slices.SortFunc(took, func(a, b weighed) int { return cmp.Compare(a.seconds, b.seconds) })
	u.P50, u.P99, u.Last = quantile(took, .5), quantile(took, .99), quantile(took, 1)
	return u
}

// weighed is a time that stands for several.
type weighed struct{ seconds, weight float64 }

// quantile is that of sorted times, in whole 0.1 ms.
func quantile(all []weighed, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sum := 0.0
	for _, w := range all {
		sum += w.weight
	}
	rank, at := q*sum, all[len(all)-1].seconds
	for _, w := range all {
		if rank -= w.weight; rank <= 1e-9 {
			at = w.seconds
			break
		}
	}
	return math.Round(at*1e4) / 1e4
}
