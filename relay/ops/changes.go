package ops

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/fielddiff"
	"xdsrelay/shard"
)

// Changes is how the content of a key differs between two of its updates, on one node.
type Changes struct {
	Key  string `json:"key"`
	Node string `json:"node"`
	// Types are those with a difference, in the order of the history.
	Types []TypeChanges `json:"types"`
	// Silent are the nodes that were asked first and did not answer.
	Silent []Silent `json:"silent"`
}

// TypeChanges is how the resources of a type differ.
type TypeChanges struct {
	URL  string `json:"type_url"`
	Name string `json:"type"`
	// From and To are the numbers of the updates; 0 is the state before the first update, and To is
	// omitted if it is the present state.
	From uint64 `json:"from"`
	To   uint64 `json:"to,omitempty"`
	// Resources are those that differ, by name. Omitted is the number of others: too many, or their
	// names were not recorded.
	Resources []ResourceDiff `json:"resources"`
	Omitted   int            `json:"resources_omitted,omitempty"`
	// Forgotten says that updates in between are no longer in the history, so that resources may be
	// missing here.
	Forgotten bool `json:"forgotten,omitempty"`
}

// ResourceDiff is how a resource differs.
type ResourceDiff struct {
	Name string `json:"name"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	fielddiff.Diff
}

// Bounds of an answer: resources, differences of one resource and of all, and the size of what is
// compared.
const (
	mostChangedResources = 500
	mostFields           = 200
	mostFieldsOfAll      = 2000
	mostComparedBytes    = 32 << 20
)

// The parameters of a comparison: two updates, or a single one.
const (
	paramFrom, paramTo, paramUpdate = "from", "to", "update"
)

// lastUpdate is the newest update of a key.
const lastUpdate = "last"

// ChangesQuery selects what is compared.
type ChangesQuery struct {
	Key, Node, Type string
	// Update is a single update: what it has changed, where "last" is the newest. Otherwise From and To are two of them; an
	// empty To is the present state. Each is a number from the history, or a version: that of the
	// control plane, that which clients get, or a digest. A number has precedence.
	Update, From, To string
}

// ErrNoUpdate is returned where the history of a key has no update of a number or version.
var ErrNoUpdate = errors.New("no such update in the history")

// ChangesParams are the parameters that [ParseChangesQuery] reads.
func ChangesParams() []string {
	return []string{ParamKey, paramNode, paramType, paramUpdate, paramFrom, paramTo}
}

// ParseChangesQuery reads a query from the parameters of a URL.
func ParseChangesQuery(v url.Values) (q ChangesQuery, err error) {
	q = ChangesQuery{Key: v.Get(ParamKey), Node: v.Get(paramNode), Update: v.Get(paramUpdate), From: v.Get(paramFrom), To: v.Get(paramTo)}
	if text := v.Get(paramType); text != "" {
		if q.Type = TypeURL(text); q.Type == "" {
			return q, fmt.Errorf("type: got %q, expected a type URL, its last part, or a name like CDS", text)
		}
	}
	switch {
	case q.Key == "":
		return q, errors.New("the parameter key is missing: expected ?key=KEY")
	case q.Update != "" && q.From+q.To != "":
		return q, errors.New("got update with from or to: expected either update=N, or from=N and perhaps to=N")
	case q.From == "" && q.To != "":
		return q, errors.New("the parameter from is missing: to needs it")
	case q.Update == "" && q.From == "":
		q.Update = lastUpdate
	}
	return q, nil
}

func (q ChangesQuery) values() url.Values {
	v := url.Values{}
	for name, text := range map[string]string{ParamKey: q.Key, paramType: q.Type, paramUpdate: q.Update, paramFrom: q.From, paramTo: q.To} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

// changesAnswer is what a node answers another one.
type changesAnswer struct {
	Changes *Changes `json:"changes,omitempty"` // nil if the key is not here
	Unknown string   `json:"unknown,omitempty"` // an update that the history does not have
}

// changes compares two updates of a key here.
func (l Local) changes(q ChangesQuery) changesAnswer {
	g := l.group(q.Key)
	if g == nil {
		return changesAnswer{}
	}
	var past []typePast
	for _, t := range g.Tables() {
		past = append(past, typePast{t, t.History()})
	}
	spans, unknown := spansOf(past, q)
	if unknown != "" {
		return changesAnswer{Unknown: unknown}
	}
	out := &Changes{Key: q.Key, Node: l.Node, Types: []TypeChanges{}}
	left := budget{resources: mostChangedResources, fields: mostFieldsOfAll, bytes: mostComparedBytes}
	for _, s := range spans {
		if q.Type != "" && s.table.Type.URL != q.Type {
			continue
		}
		t := TypeChanges{URL: s.table.Type.URL, Name: ShortName(s.table.Type.URL), From: s.from, To: s.to, Resources: []ResourceDiff{}}
		if s.to == math.MaxUint64 {
			t.To = 0
		}
		c := s.table.Compare(s.from, s.to)
		t.Omitted, t.Forgotten = c.Unlisted, c.Forgotten
		for i := range c.Changes {
			if left.resources == 0 {
				t.Omitted += len(c.Changes) - i
				break
			}
			left.resources--
			t.Resources = append(t.Resources, left.diff(&c.Changes[i]))
		}
		if len(t.Resources)+t.Omitted > 0 || t.Forgotten {
			out.Types = append(out.Types, t)
		}
	}
	return changesAnswer{Changes: out}
}

// budget is what an answer may still have.
type budget struct{ resources, fields, bytes int }

// diff compares a resource, as far as its contents are known.
func (b *budget) diff(c *cache.ResourceChange) ResourceDiff {
	d := ResourceDiff{Name: c.Name, Change: "changed", Diff: fielddiff.Diff{Fields: []fielddiff.Field{}}}
	switch {
	case c.From.Known == cache.KnownAbsent:
		d.Change = "added"
	case c.To.Known == cache.KnownAbsent:
		d.Change = "removed"
	}
	if c.From.Known == cache.NotKept || c.To.Known == cache.NotKept {
		d.Problem = "a content is not in memory; limits.max_history_size bounds them, and secrets are never kept"
		return d
	}
	for _, m := range []cache.Moment{c.From, c.To} {
		if m.Resource != nil {
			b.bytes -= m.Resource.Size()
		}
	}
	if b.bytes < 0 || b.fields <= 0 {
		d.Problem = "not compared: the answer is too large; select a type or fewer updates"
		return d
	}
	d.Diff = fielddiff.Of(c.From.Resource, c.To.Resource, min(mostFields, b.fields))
	b.fields -= len(d.Fields)
	return d
}

// typePast is the history of a table, the newest update first.
type typePast struct {
	table *cache.Table
	past  []cache.Past
}

// span is what is compared of a table: the updates after number from, up to to.
type span struct {
	table    *cache.Table
	from, to uint64
}

// spansOf returns what is compared of each table, or what no update is called. A version may have
// come with an update of each type: these count for their types, and the last of them for the
// others.
func spansOf(past []typePast, q ChangesQuery) (spans []span, unknown string) {
	if q.Update == lastUpdate {
		q.Update = newestOf(past, q.Type)
	}
	if q.Update != "" {
		for _, p := range past {
			if n, ok := p.find(q.Update, isNumber(past, q.Update)); ok {
				spans = append(spans, span{p.table, n - 1, n})
			}
		}
		if len(spans) == 0 {
			return nil, q.Update
		}
		return spans, ""
	}
	from, ok := resolve(past, q.From)
	if !ok {
		return nil, q.From
	}
	to := make([]uint64, len(past))
	for i := range to {
		to[i] = math.MaxUint64
	}
	if q.To != "" {
		if to, ok = resolve(past, q.To); !ok {
			return nil, q.To
		}
	}
	for i, p := range past {
		if from[i] < to[i] {
			spans = append(spans, span{p.table, from[i], to[i]})
		}
	}
	return spans, ""
}

// newestOf returns the number of the newest update, of a type unless that is empty; "last" if there is
// none.
func newestOf(past []typePast, url string) string {
	newest := uint64(0)
	for _, p := range past {
		if len(p.past) > 0 && (url == "" || p.table.Type.URL == url) {
			newest = max(newest, p.past[0].Number)
		}
	}
	if newest == 0 {
		return lastUpdate
	}
	return strconv.FormatUint(newest, 10)
}

// isNumber reports whether an update has this number.
func isNumber(past []typePast, text string) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	return err == nil && (n == 0 || slices.ContainsFunc(past, func(p typePast) bool {
		return slices.ContainsFunc(p.past, func(one cache.Past) bool { return one.Number == n })
	}))
}

// find returns the number of the newest update of a type with a number or version.
func (p *typePast) find(text string, number bool) (uint64, bool) {
	for _, one := range p.past {
		if number && strconv.FormatUint(one.Number, 10) == text || !number && isVersion(one, text) {
			return one.Number, true
		}
	}
	return 0, false
}

// leastPrefix is the length from which the beginning of a version stands for it.
const leastPrefix = 8

func isVersion(p cache.Past, text string) bool {
	for _, v := range []string{p.ControlPlaneVersion, p.Version, p.Digest} {
		if v == text && v != "" || len(text) >= leastPrefix && len(v) > len(text) && v[:len(text)] == text {
			return true
		}
	}
	return false
}

// resolve returns for each type the number of the update that text stands for.
func resolve(past []typePast, text string) (numbers []uint64, ok bool) {
	numbers = make([]uint64, len(past))
	if isNumber(past, text) {
		n, _ := strconv.ParseUint(text, 10, 64) // checked
		for i := range numbers {
			numbers[i] = n
		}
		return numbers, true
	}
	var last uint64
	for i := range past {
		if n, found := past[i].find(text, false); found {
			numbers[i], last = n, max(last, n)
		}
	}
	for i := range numbers {
		if numbers[i] == 0 {
			numbers[i] = last
		}
	}
	return numbers, last > 0
}

// Changes compares two updates of a key, as seen by the node that owns it, or by another one that
// has it.
func (f *Model) Changes(ctx context.Context, q ChangesQuery) (Changes, error) {
	silent := []Silent{}
	owner := f.nodes.Owner(q.Key)
	members := slices.Clone(f.nodes.All())
	slices.SortStableFunc(members, func(a, b shard.Member) int { return first(b.Name == owner) - first(a.Name == owner) })
	known := false
	for _, m := range members {
		if q.Node != "" && m.Name != q.Node {
			continue
		}
		known = true
		answers, silence := AskAll[changesAnswer](ctx, f.nodes, askChanges, q.values(), func(n string) bool { return n == m.Name })
		if silent = append(silent, silence...); len(answers) == 0 {
			continue
		}
		switch a := answers[0]; {
		case a.Unknown != "":
			return Changes{Silent: silent}, fmt.Errorf("%w of node %s: %q; 'xdsrelay history' shows the numbers and versions", ErrNoUpdate, m.Name, a.Unknown)
		case a.Changes != nil:
			a.Changes.Silent = silent
			return *a.Changes, nil
		}
	}
	if !known {
		return Changes{Silent: silent}, f.noNode(q.Node)
	}
	return Changes{Silent: silent}, ErrUnknownKey
}

// answerChanges answers another node.
func (l Local) answerChanges(v url.Values) (any, error) {
	q, err := ParseChangesQuery(v)
	if err != nil {
		return nil, err
	}
	return l.changes(q), nil
}
