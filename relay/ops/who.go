package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// WhoQuery says of which resources is asked, and of which clients.
type WhoQuery struct {
	// Resource is a name, in which * matches any text. Type is a type URL; empty for all.
	Resource, Type string
	// Key is the only key wanted, States those of which a client must have one with a resource; both
	// empty for all. Of keys that are not wanted nothing is counted.
	Key    string
	States []State
	// Limit is how many clients a page has at most.
	Limit int

	after  *whoRank
	silent []Silent
}

// Bounds of an answer: how many resources may match, how many copies a node lists, and how many versions
// of one resource it distinguishes.
const (
	mostResources = 50
	mostCopies    = 1000
	mostVersions  = 100
)

// maxResourceName bounds the name that is asked for.
const maxResourceName = 4096

// Who says which keys serve resources, and how clients stand with them.
type Who struct {
	// Resources are those that match, by type and name. MoreResources says that there are others: of those
	// nothing else is listed.
	Resources     []WhoResource `json:"resources"`
	MoreResources bool          `json:"more_resources,omitempty"`
	// Copies are the keys that have a resource, or ask for it, on each node. OmittedCopies is how many more
	// there are; their clients are counted nevertheless.
	Copies        []WhoCopy `json:"copies"`
	OmittedCopies int       `json:"copies_omitted,omitempty"`
	// Clients is a page of the clients that subscribe to a resource, those in the worst state first. Next asks
	// for the next one; all else is as with the first page.
	Clients []WhoClient `json:"clients"`
	Next    string      `json:"next,omitempty"`
	// Similar are similar names if there is no such resource.
	Similar []string `json:"similar,omitempty"`
	// Silent are the nodes that did not answer.
	Silent []Silent `json:"silent"`
}

// WhoResource is a resource in numbers.
type WhoResource struct {
	URL  string `json:"type_url"`
	Type string `json:"type"`
	Name string `json:"name"`
	// States counts the clients that subscribe to it, MISSING those where it does not exist. Selected is how
	// many of them the query selects.
	States   Count `json:"states"`
	Selected int   `json:"selected"`
	// Versions are the contents that keys have of it, those of most clients first.
	Versions []WhoVersion `json:"versions"`
	// OmittedVersions is how many more there are, at least.
	OmittedVersions int `json:"versions_omitted,omitempty"`
}

// WhoVersion is a content of a resource.
type WhoVersion struct {
	// Version is empty where a key asks for a resource that does not exist.
	Version string `json:"version,omitempty"`
	// Digest is that of the content: equal content has the same on all nodes and keys.
	Digest string `json:"digest,omitempty"`
	// Keys is how many keys have it; MoreKeys says that there are further ones.
	Keys     int  `json:"keys"`
	MoreKeys bool `json:"more_keys,omitempty"`
	// States counts the clients of these keys that subscribe to the resource.
	States Count `json:"states"`
	// Hashes stand for the keys between nodes, which may have the same.
	Hashes []uint32 `json:"hashes,omitempty"`
}

// WhoCopy is a resource of a key on one node.
type WhoCopy struct {
	URL   string `json:"type_url"`
	Type  string `json:"type"`
	Name  string `json:"name"`
	Key   string `json:"key"`
	Owner string `json:"owner,omitempty"`
	Node  string `json:"node"`
	// Version and Digest are empty where there is no such resource.
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Changed is when the node got this content.
	Changed time.Time `json:"changed,omitzero"`
	Bytes   int       `json:"bytes,omitempty"`
	// Standing is ACCEPTED, REJECTED or ERROR for what the control plane said last, and for a resource that
	// is not there REQUESTED, UNREACHABLE or ABSENT. Problem says why.
	Standing string `json:"standing"`
	Problem  string `json:"problem,omitempty"`
	// States counts the clients of the key on this node that subscribe to the resource.
	States Count `json:"states"`
}

// WhoClient is a client that subscribes to a resource.
type WhoClient struct {
	Name     string `json:"name"`
	Key      string `json:"key"`
	Node     string `json:"node"`
	Peer     string `json:"peer"`
	URL      string `json:"type_url"`
	Type     string `json:"type"`
	Resource string `json:"resource"`
	// Interest is how it subscribes to the resource: by name, glob or wildcard.
	Interest cache.Interest `json:"interest"`
	// State is that of this resource; MISSING if it does not exist. Since is when the client's state with the
	// type began.
	State State     `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Has says which version the client has: the current one, an older one, none, or that it is unknown.
	// Version is that version if it is known.
	Has     fanout.Holding `json:"has"`
	Version string         `json:"version,omitempty"`
	// AckedVersion is that of the newest update of the type that the client has acknowledged, if the node
	// remembers it.
	AckedVersion string `json:"acked_version,omitempty"`
	// Removed says that the resource was removed, and that the client may still have it.
	Removed bool `json:"removed,omitempty"`
	// Private says that the client gets it over an upstream stream of its own.
	Private bool `json:"private,omitempty"`
	// Waiting is why it does not have the current version, Nack why it rejected it.
	Waiting string `json:"waiting,omitempty"`
	Nack    *Nack  `json:"nack,omitempty"`
}

// whoRank is the place of a client in the answer.
type whoRank struct {
	rank

	URL  string `json:"u"`
	Name string `json:"r"`
}

// The order of states. A resource that does not exist is worse than one that was not sent yet.
var whoBadness = map[State]int{Synced: 1, NotSent: 2, Unknown: 3, MissingResource: 4, Stale: 5, Nacked: 6}

func (c *WhoClient) rank() whoRank {
	r := whoRank{rank{Group: -whoBadness[c.State], At: at{c.Name, c.Key, c.Peer, c.Node}}, c.URL, c.Resource}
	if !c.Since.IsZero() {
		r.Since = c.Since.UnixNano()
	}
	return r
}

func (r whoRank) compare(o whoRank) int {
	return cmp.Or(r.rank.compare(o.rank), strings.Compare(r.URL, o.URL), strings.Compare(r.Name, o.Name))
}

// paramResource is the parameter with the name of a resource.
const paramResource = "resource"

// WhoParams are the parameters that [ParseWho] reads.
func WhoParams() []string {
	return []string{paramResource, paramType, ParamKey, paramState, paramLimit, paramPage}
}

// ParseWho reads a query from the parameters of a URL. The error is the asker's.
func ParseWho(v url.Values) (q WhoQuery, err error) {
	q = WhoQuery{Resource: v.Get(paramResource), Key: v.Get(ParamKey)}
	switch n := len(q.Resource); {
	case n == 0:
		return q, errors.New("the parameter resource is missing: expected ?resource=NAME, in which * matches any text")
	case n > maxResourceName:
		return q, fmt.Errorf("%s: got %d bytes, expected at most %d", paramResource, n, maxResourceName)
	}
	if text := v.Get(paramType); text != "" {
		if q.Type = TypeURL(text); q.Type == "" {
			return q, fmt.Errorf("type: got %q, expected a type URL, its last part, or a name like CDS", text)
		}
	}
	if text := v.Get(paramState); text != "" {
		if q.States, err = ParseStates(text); err != nil {
			return q, err
		}
	}
	if q.Limit, err = number(v, paramLimit, usualPage, 1, largestPage); err != nil {
		return q, err
	}
	if text := v.Get(paramPage); text != "" {
		var c whoCursor
		if err := readToken(text, &c); err != nil || c.After == nil {
			return q, fmt.Errorf("%s: expected next of the previous page", paramPage)
		}
		q.after, q.silent = c.After, c.Silent
	}
	if text := v.Get(paramAfter); text != "" {
		q.after = &whoRank{}
		if err := json.Unmarshal([]byte(text), q.after); err != nil {
			return q, fmt.Errorf("%s: %w", paramAfter, err)
		}
	}
	return q, nil
}

// whoCursor is where a page ends.
type whoCursor struct {
	After  *whoRank `json:"a"`
	Silent []Silent `json:"s,omitempty"`
}

// values is q as the parameters of a question to another node.
func (q *WhoQuery) values() url.Values {
	v := Query{Key: q.Key, Type: q.Type, States: q.States, Limit: q.Limit}.values()
	v.Set(paramResource, q.Resource)
	if q.after != nil {
		if text, err := json.Marshal(q.after); err == nil { // texts can always be written
			v.Set(paramAfter, string(text))
		}
	}
	return v
}

// Later reports whether q asks for a page behind the first one.
func (q *WhoQuery) Later() bool { return q.after != nil }

// selects reports whether q asks for a client in a state.
func (q *WhoQuery) selects(s State) bool { return len(q.States) == 0 || slices.Contains(q.States, s) }

// pattern is a name in which * matches any text.
type pattern struct {
	exact string   // the canonical name if there is no *
	parts []string // between the *
}

func newPattern(text string) pattern {
	if !strings.Contains(text, "*") {
		return pattern{exact: resource.Canonical(text)}
	}
	return pattern{parts: strings.Split(text, "*")}
}

func (p *pattern) match(name string) bool {
	if p.parts == nil {
		return name == p.exact
	}
	first, last := p.parts[0], p.parts[len(p.parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return true
}

// Who answers a query. The first page has all but the later clients.
func (f *Model) Who(ctx context.Context, q WhoQuery) Who {
	wanted := func(node string) bool {
		return !slices.ContainsFunc(q.silent, func(s Silent) bool { return s.Node == node })
	}
	parts, silent := AskAll[whoPart](ctx, f.nodes, askWho, q.values(), wanted)
	out := joinWho(parts, &q)
	out.Silent = append(append([]Silent{}, q.silent...), silent...)
	if out.Next != "" {
		last := out.Clients[len(out.Clients)-1].rank()
		out.Next = token(whoCursor{&last, out.Silent})
	}
	for i := range out.Copies {
		out.Copies[i].Owner = f.nodes.Owner(out.Copies[i].Key)
	}
	if len(out.Resources) == 0 && !q.Later() {
		near, _ := AskAll[[]Near](ctx, f.nodes, askWhoNear, url.Values{paramResource: {q.Resource}, paramType: {q.Type}}, wanted)
		for _, n := range nearest(slices.Concat(near...)) {
			out.Similar = append(out.Similar, n.Name)
		}
	}
	return out
}
