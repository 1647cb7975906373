package ops

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/redact"
)

// Diff is what clients hold against what the origin serves now.
type Diff struct {
	// Found is as for a client that is asked for by name, without its clients.
	Found
	Diffs []ClientDiff `json:"diffs"`
}

// ClientDiff is what one client holds against what its node has.
type ClientDiff struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Node string `json:"node"`
	Peer string `json:"peer"`
	// Notes say why what the node has may not be what the origin serves now.
	Notes []string   `json:"notes"`
	Types []TypeDiff `json:"types"`
	// Differs says that some type does.
	Differs bool `json:"differs"`
}

// TypeDiff is what a client holds of a type.
type TypeDiff struct {
	URL   string `json:"type_url"`
	Name  string `json:"type"`
	State State  `json:"state"`
	// Same is how many resources it holds as they are now.
	Same int `json:"same"`
	// Differences are the others: what it holds in an older version, does not hold, or
	// holds although it was removed. Omitted is how many more there are.
	Differences []Difference `json:"differences"`
	Omitted     int          `json:"differences_omitted,omitempty"`
	// Unknown says that nothing is known of what it holds: it came with something that
	// cannot be compared yet.
	Unknown bool `json:"unknown,omitempty"`
}

// Difference is one resource that a client does not hold as it is.
type Difference struct {
	Name string `json:"name"`
	// Change is what would make it right: added, changed or removed. Unsure says that
	// whether the client holds some older version is not known: the name has come and
	// gone meanwhile, or the client has asked for it since, or came back with it.
	Change string `json:"change"`
	Unsure bool   `json:"unsure,omitempty"`
	// Version is the one there is now. Which older one the client holds is not known:
	// only the newest is kept.
	Version string    `json:"version,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
	// Sent says what became of it: NOT_SENT, STALE where it was sent and not answered,
	// NACKED where it was rejected.
	Sent State `json:"sent"`
}

// mostDifferences bounds those of one type.
const mostDifferences = 1000

// diff compares what a client here holds; nil if it is not here.
func (l Local) diff(c at) *ClientDiff {
	var out *ClientDiff
	for _, s := range l.find(Query{Name: c.Name, Key: c.Key}) {
		if s.Peer() != c.Peer {
			continue
		}
		if out == nil {
			out = &ClientDiff{Name: c.Name, Key: c.Key, Node: l.Node, Peer: c.Peer, Types: []TypeDiff{}, Notes: []string{}}
		}
		for _, h := range s.Holdings() {
			out.Types = append(out.Types, typeDiff(h))
		}
	}
	if out == nil {
		return nil
	}
	for _, t := range out.Types {
		out.Differs = out.Differs || len(t.Differences) > 0 || t.Unknown
	}
	if g := l.group(c.Key); g != nil {
		if up := g.Upstream(); !up.Connected {
			note := "the node has no upstream stream for the key: the comparison uses its last state"
			if up.Err != nil {
				note = fmt.Sprintf("the node has had no upstream stream for the key since %s: the comparison uses its last state (%s)",
					up.Since.UTC().Format(time.RFC3339), redact.Text(up.Err.Error()))
			}
			out.Notes = append(out.Notes, note)
		}
	}
	return out
}

func typeDiff(h fanout.TypeDiff) TypeDiff {
	t := TypeDiff{
		URL: h.Type.URL, Name: ShortName(h.Type.URL), State: h.State, Same: h.Same, Differences: []Difference{}, Unknown: h.State == Unknown,
	}
	for _, l := range h.Lacks {
		if len(t.Differences) == mostDifferences {
			t.Omitted = len(h.Lacks) - mostDifferences
			break
		}
		d := Difference{Name: l.Name, Change: "added", Unsure: l.Maybe, Changed: l.Changed, Sent: l.State}
		switch {
		case l.Resource == nil:
			d.Change = "removed"
		case l.Was:
			d.Change = "changed"
		}
		if l.Resource != nil {
			d.Version = l.Resource.Version
		}
		t.Differences = append(t.Differences, d)
	}
	slices.SortFunc(t.Differences, func(a, b Difference) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// mostCompared bounds the clients of one name that are compared.
const mostCompared = 20

// Diff compares what the clients of a name, or of the only name that begins so, hold
// with what their nodes have, and these with what the owner of the key has.
func (f *Model) Diff(ctx context.Context, name string) (Diff, error) {
	found, err := f.Find(ctx, name, 0)
	if err != nil {
		return Diff{}, err
	}
	out := Diff{Found: found, Diffs: []ClientDiff{}}
	if len(found.Clients) > mostCompared {
		out.More, found.Clients = true, found.Clients[:mostCompared]
	}
	for i := range found.Clients {
		c := found.Clients[i].at()
		v := url.Values{paramName: {c.Name}, ParamKey: {c.Key}, paramPeer: {c.Peer}}
		answers, silent := AskAll[*ClientDiff](ctx, f.nodes, askDiff, v, func(node string) bool { return node == c.Node })
		out.Silent = append(out.Silent, silent...)
		for _, d := range answers {
			if d != nil {
				d.Notes = append(d.Notes, f.behindOwner(ctx, c)...)
				out.Diffs = append(out.Diffs, *d)
			}
		}
	}
	out.Clients = nil
	return out, nil
}

// behindOwner says of which types the owner of a client's key has something else
// than the client's node.
func (f *Model) behindOwner(ctx context.Context, c at) (notes []string) {
	owner := f.nodes.Owner(c.Key)
	if owner == "" || owner == c.Node {
		return nil
	}
	v := url.Values{ParamKey: {c.Key}}
	ask := func(node string) map[string]string {
		answers, _ := AskAll[map[string]string](ctx, f.nodes, askDigests, v, func(n string) bool { return n == node })
		if len(answers) == 0 {
			return nil
		}
		return answers[0]
	}
	theirs := ask(owner)
	if theirs == nil {
		return []string{fmt.Sprintf("node %s, the owner of the key, did not answer; the content of node %s may be outdated", owner, c.Node)}
	}
	for u, digest := range ask(c.Node) {
		if other, ok := theirs[u]; ok && other != digest {
			notes = append(notes, fmt.Sprintf("node %s has other content of %s than node %s, the owner of the key", c.Node, ShortName(u), owner))
		}
	}
	slices.Sort(notes)
	return notes
}

// digests are those of what is held of a key here, by type.
func (l Local) digests(key string) map[string]string {
	out := make(map[string]string)
	if g := l.group(key); g != nil {
		for _, t := range g.Tables() {
			out[t.Type.URL] = t.Digest().Digest.Hex()
		}
	}
	return out
}
