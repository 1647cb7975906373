package ops

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// Rejections are why clients reject what they were sent, with the keys, versions and resources that
// each reason is about.
type Rejections struct {
	// Clients is how many clients the nodes that answered have, and Rejecting how many of them reject
	// a type.
	Clients   int `json:"clients"`
	Rejecting int `json:"rejecting"`
	// Reasons are those of most clients first. More says that there are further reasons.
	Reasons []Reason `json:"reasons"`
	More    bool     `json:"more_reasons,omitempty"`
	// Silent are the nodes that did not answer.
	Silent []Silent `json:"silent"`
}

// Reason is a message with which clients reject a type.
type Reason struct {
	URL     string `json:"type_url"`
	Name    string `json:"type"`
	Message string `json:"message"`
	Clients int    `json:"clients"`
	// Since is when the first of the clients rejected it.
	Since time.Time `json:"since"`
	// Keys, Versions and Nodes are those of the clients, the ones with most clients first.
	Keys     []ReasonCount `json:"keys"`
	Versions []ReasonCount `json:"versions"`
	Nodes    []ReasonCount `json:"nodes"`
	// OmittedKeys is how many more keys there are, at least.
	OmittedKeys int `json:"keys_omitted,omitempty"`
	// Resources are those that the message names, and then those that the rejected version changed.
	Resources []ReasonResource `json:"resources"`
}

// ReasonCount is a number of clients that reject for a reason.
type ReasonCount struct {
	Name    string `json:"name"`
	Clients int    `json:"clients"`
}

// ReasonResource is a resource that a reason may be about.
type ReasonResource struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	// Named is true if the message contains the name. Change is added or changed if the rejected
	// version did that with the resource.
	Named  bool   `json:"named,omitempty"`
	Change string `json:"change,omitempty"`
}

// Bounds of an answer.
const (
	mostAnswered        = 50 // reasons
	mostReasonCounts    = 50 // keys, versions and nodes of a reason
	mostReasonResources = 50 // of a reason
	mostReasonKeys      = 5  // keys of a reason whose resources are looked at
	mostNamesLooked     = 20000
)

// RejectionQuery selects reasons. The zero value is all of them.
type RejectionQuery struct {
	// Type is a type URL, Reason a part of the message in letters of any case, Key an aggregation key.
	Type, Reason, Key string
}

// RejectionParams are the parameters that [ParseRejectionQuery] reads.
func RejectionParams() []string { return []string{paramType, paramReason, ParamKey} }

// ParseRejectionQuery reads a query from the parameters of a URL. The error is the asker's.
func ParseRejectionQuery(v url.Values) (q RejectionQuery, err error) {
	q = RejectionQuery{Reason: v.Get(paramReason), Key: v.Get(ParamKey)}
	if text := v.Get(paramType); text != "" {
		if q.Type = TypeURL(text); q.Type == "" {
			return q, fmt.Errorf("type: got %q, expected a type URL, its last part, or a name like CDS", text)
		}
	}
	return q, nil
}

func (q *RejectionQuery) values() url.Values {
	return url.Values{paramType: {q.Type}, paramReason: {q.Reason}, ParamKey: {q.Key}}
}

func (q *RejectionQuery) selects(t *Type) bool {
	return t.Nack != nil && (q.Type == "" || t.URL == q.Type) &&
		(q.Reason == "" || strings.Contains(strings.ToLower(t.Nack.Message), strings.ToLower(q.Reason)))
}

// answerRejections answers another node.
func (l Local) answerRejections(v url.Values) (any, error) {
	q, err := ParseRejectionQuery(v)
	if err != nil {
		return nil, err
	}
	return l.rejections(&q), nil
}

// rejections groups the rejections of the clients of this node. It looks at each client once.
func (l Local) rejections(q *RejectionQuery) Rejections {
	type reasonID struct{ url, message string }
	out := Rejections{Reasons: []Reason{}}
	found := make(map[reasonID]*Reason)
	versions := make(map[*Reason]map[string]map[string]bool) // by key
	for c := range l.selected(Query{}) {
		out.Clients++
		rejects := false
		for i := range c.Types {
			t := &c.Types[i]
			if q.Key != "" && c.Key != q.Key || !q.selects(t) {
				continue
			}
			rejects = true
			id := reasonID{t.URL, t.Nack.Message}
			r := found[id]
			if r == nil {
				if len(found) == mostCounted {
					out.More = true
					continue
				}
				r = &Reason{URL: t.URL, Name: t.Name, Message: t.Nack.Message, Since: t.Nack.At, Resources: []ReasonResource{}}
				found[id], versions[r] = r, make(map[string]map[string]bool)
			}
			r.Clients++
			if t.Nack.At.Before(r.Since) {
				r.Since = t.Nack.At
			}
			if !addCount(&r.Keys, c.Key, 1) {
				r.OmittedKeys = 1
			}
			addCount(&r.Versions, t.Nack.Version, 1)
			addCount(&r.Nodes, l.Node, 1)
			if versions[r][c.Key] == nil && len(versions[r]) < mostReasonKeys {
				versions[r][c.Key] = make(map[string]bool)
			}
			if of := versions[r][c.Key]; of != nil && len(of) < mostReasonCounts {
				of[t.Nack.Version] = true
			}
		}
		if rejects {
			out.Rejecting++
		}
	}
	for _, r := range found {
		out.Reasons = append(out.Reasons, *r)
	}
	more := len(out.Reasons) > mostAnswered
	out.Reasons, out.More = firstReasons(out.Reasons), out.More || more
	budget := mostNamesLooked
	for i := range out.Reasons {
		r := &out.Reasons[i]
		for _, k := range r.Keys {
			if of := versions[found[reasonID{r.URL, r.Message}]][k.Name]; of != nil {
				l.reasonResources(r, k.Name, of, &budget)
			}
		}
	}
	return out
}

// reasonResources adds resources of a key that a reason may be about.
func (l Local) reasonResources(r *Reason, key string, versions map[string]bool, budget *int) {
	g := l.group(key)
	if g == nil {
		return
	}
	for _, t := range g.Tables() {
		if t.Type.URL != r.URL {
			continue
		}
		changed := make(map[string]string)
		for _, p := range t.History() {
			if versions[redact.Text(p.Version)] || versions[redact.Text(p.ControlPlaneVersion)] && p.ControlPlaneVersion != "" {
				for _, name := range p.AddedNames {
					changed[name] = "added"
				}
				for _, name := range p.ChangedNames {
					changed[name] = "changed"
				}
			}
		}
		named, _ := t.NamesLike(func(name string) bool {
			*budget--
			return *budget > 0 && resource.Mentions(r.Message, name)
		}, mostReasonResources)
		for _, name := range named {
			r.addResource(ReasonResource{Name: name, Key: key, Named: true, Change: changed[name]})
			delete(changed, name)
		}
		for name, change := range changed {
			r.addResource(ReasonResource{Name: name, Key: key, Change: change})
		}
	}
	r.sortResources()
}

func (r *Reason) addResource(one ReasonResource) {
	if !slices.ContainsFunc(r.Resources, func(o ReasonResource) bool { return o.Name == one.Name && o.Key == one.Key }) {
		r.Resources = append(r.Resources, one)
	}
}

// sortResources puts those first that the message names, and cuts them to a bound.
func (r *Reason) sortResources() {
	slices.SortFunc(r.Resources, func(a, b ReasonResource) int {
		return cmp.Or(first(b.Named)-first(a.Named), strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key))
	})
	r.Resources = r.Resources[:min(len(r.Resources), mostReasonResources)]
}

// addCount adds clients to those of a name, unless there are too many names.
func addCount(all *[]ReasonCount, name string, clients int) bool {
	i := slices.IndexFunc(*all, func(c ReasonCount) bool { return c.Name == name })
	switch {
	case i >= 0:
		(*all)[i].Clients += clients
	case len(*all) >= mostReasonCounts:
		return false
	default:
		*all = append(*all, ReasonCount{name, clients})
	}
	return true
}

// firstReasons are the reasons of most clients, and of each the names with most clients first.
func firstReasons(all []Reason) []Reason {
	slices.SortFunc(all, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Clients, a.Clients), strings.Compare(a.URL, b.URL), strings.Compare(a.Message, b.Message))
	})
	all = all[:min(len(all), mostAnswered)]
	for i := range all {
		for _, counts := range [][]ReasonCount{all[i].Keys, all[i].Versions, all[i].Nodes} {
			slices.SortFunc(counts, func(a, b ReasonCount) int {
				return cmp.Or(cmp.Compare(b.Clients, a.Clients), strings.Compare(a.Name, b.Name))
			})
		}
	}
	return all
}

// Rejections returns why clients of all nodes reject what they were sent.
func (f *Model) Rejections(ctx context.Context, q RejectionQuery) Rejections {
	answers, silent := AskAll[Rejections](ctx, f.nodes, askRejections, q.values(), nil)
	out := Rejections{Reasons: []Reason{}, Silent: silent}
	for _, a := range answers {
		out.Clients, out.Rejecting, out.More = out.Clients+a.Clients, out.Rejecting+a.Rejecting, out.More || a.More
		for _, r := range a.Reasons {
			out.add(&r)
		}
	}
	out.More = out.More || len(out.Reasons) > mostAnswered
	out.Reasons = firstReasons(out.Reasons)
	return out
}

// add adds a reason of a node to that of the others.
func (r *Rejections) add(one *Reason) {
	i := slices.IndexFunc(r.Reasons, func(o Reason) bool { return o.URL == one.URL && o.Message == one.Message })
	if i < 0 {
		r.Reasons = append(r.Reasons, *one)
		return
	}
	to := &r.Reasons[i]
	to.Clients += one.Clients
	if one.Since.Before(to.Since) {
		to.Since = one.Since
	}
	to.OmittedKeys = max(to.OmittedKeys, one.OmittedKeys)
	for _, k := range one.Keys {
		if !addCount(&to.Keys, k.Name, k.Clients) {
			to.OmittedKeys++
		}
	}
	for _, v := range one.Versions {
		addCount(&to.Versions, v.Name, v.Clients)
	}
	for _, n := range one.Nodes {
		addCount(&to.Nodes, n.Name, n.Clients)
	}
	for _, resource := range one.Resources {
		to.addResource(resource)
	}
	to.sortResources()
}
