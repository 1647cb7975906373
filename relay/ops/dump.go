package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/shard"
)

// Dump is a part of the resources of a key, by type and name, as one node has them.
type Dump struct {
	Key  string `json:"key"`
	Node string `json:"node"`
	// Resources are redacted.
	Resources []Dumped `json:"resources"`
	// Next is what asks for those behind; empty at the end.
	Next string `json:"next,omitempty"`
	// Silent are the nodes that were asked first and did not answer.
	Silent []Silent `json:"silent"`
}

// Dumped is one resource.
type Dumped struct {
	URL     string    `json:"type_url"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Changed time.Time `json:"changed,omitzero"`
	Bytes   int       `json:"bytes"`
	// State is REJECTED for the last good copy of a resource whose newest version the relay
	// rejected, and ERROR if the control plane answers with an error. Problem says why.
	State   string `json:"state,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Resource is the resource as JSON, without what must not be shown.
	Resource json.RawMessage `json:"resource,omitempty"`
}

// dumpBytes is how much a part of a dump holds, beside its last resource.
const dumpBytes = 1 << 20

// dumpStates are the states of resources with problems.
var dumpStates = map[cache.Standing]string{cache.Rejected: "REJECTED", cache.Failed: "ERROR"}

// place is where a part of a dump ends.
type place struct {
	URL  string `json:"u"`
	Name string `json:"n"`
}

// dump returns the resources of a key behind a place; nil if the key is not here.
func (l Local) dump(key, typeURL string, after place) *Dump {
	g := l.group(key)
	if g == nil {
		return nil
	}
	d := &Dump{Key: key, Node: l.Node, Resources: []Dumped{}}
	tables := slices.Clone(g.Tables())
	slices.SortFunc(tables, func(a, b *cache.Table) int { return strings.Compare(a.Type.URL, b.Type.URL) })
	size := 0
	for _, t := range tables {
		url := t.Type.URL
		if typeURL != "" && url != typeURL || url < after.URL {
			continue
		}
		for _, i := range t.NameInfos() {
			if i.Resource == nil || url == after.URL && i.Name <= after.Name {
				continue
			}
			if size > dumpBytes {
				last := d.Resources[len(d.Resources)-1]
				d.Next = token(place{last.URL, last.Name})
				return d
			}
			one := dumpOf(url, i)
			size += len(one.Resource) + len(one.Name) + 200
			d.Resources = append(d.Resources, one)
		}
	}
	return d
}

func dumpOf(url string, i cache.NameInfo) Dumped {
	d := Dumped{URL: url, Name: i.Name, Version: i.Version, Changed: i.Changed, Bytes: i.Resource.Size(), State: dumpStates[i.Standing]}
	if i.Problem != nil {
		d.Problem = i.Problem.Message
	}
	if len(i.Resource.Body) == 0 {
		return d
	}
	text, err := redact.JSON(i.Resource.Body)
	if err != nil {
		d.Problem = "it cannot be shown: " + redact.Text(err.Error())
		return d
	}
	d.Resource = text
	return d
}

// Dump returns resources of a key, of one type or with an empty URL of all, as the
// node has them that owns the key, or another one that has it. next is where the part
// before ended.
func (f *Model) Dump(ctx context.Context, key, typeURL, node, next string) (Dump, error) {
	v := url.Values{ParamKey: {key}, paramType: {typeURL}}
	if next != "" {
		var c dumpCursor
		if err := readToken(next, &c); err != nil {
			return Dump{}, fmt.Errorf("%s: expected next of the previous page", paramPage)
		}
		node = c.Node
		v.Set(paramAfter, c.After)
	}
	var silent []Silent
	owner := f.nodes.Owner(key)
	members := slices.Clone(f.nodes.All())
	slices.SortStableFunc(members, func(a, b shard.Member) int { return first(b.Name == owner) - first(a.Name == owner) })
	known := false
	for _, m := range members {
		if node != "" && m.Name != node {
			continue
		}
		known = true
		answers, silence := AskAll[*Dump](ctx, f.nodes, askDump, v, func(n string) bool { return n == m.Name })
		if silent = append(silent, silence...); len(answers) == 0 || answers[0] == nil {
			continue
		}
		d := *answers[0]
		if d.Silent = append([]Silent{}, silent...); d.Next != "" {
			d.Next = token(dumpCursor{Node: d.Node, After: d.Next})
		}
		return d, nil
	}
	if !known {
		return Dump{}, f.noNode(node)
	}
	return Dump{Silent: silent}, ErrUnknownKey
}

// dumpCursor is where a part of a dump ends: all parts come from one node.
type dumpCursor struct {
	Node  string `json:"n"`
	After string `json:"a"`
}

func first(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// answerDump answers another node.
func (l Local) answerDump(v url.Values) (any, error) {
	var after place
	if text := v.Get(paramAfter); text != "" {
		if err := readToken(text, &after); err != nil {
			return nil, errors.New("after: expected next of the previous page")
		}
	}
	return l.dump(v.Get(ParamKey), v.Get(paramType), after), nil
}
