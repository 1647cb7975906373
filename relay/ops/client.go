package ops

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/resource"
)

// Client is a client and how it stands.
type Client struct {
	// Name is the client's node id, Cluster the cluster that its node names.
	Name    string `json:"name"`
	Cluster string `json:"cluster,omitempty"`
	// Key is its aggregation key, Rule the rule that gave it.
	Key  string `json:"key"`
	Rule string `json:"rule,omitempty"`
	// Node is the node of the tier that it is connected with, from the address Peer; of
	// clients that poll, that it polled last, from a host.
	Node string `json:"node"`
	Peer string `json:"peer"`
	// Variants are sotw and delta, mostly one of them, or rest for a client that polls.
	Variants []string `json:"variants"`
	// Connected is when its oldest stream was opened, and Streams how many it has. A
	// client that polls has none: it is when the node began to remember it, and Polled
	// when its last poll came or was answered.
	Connected time.Time `json:"connected"`
	Streams   int       `json:"streams"`
	Polled    time.Time `json:"polled,omitzero"`
	// Unacked is how many bytes are on their way to it.
	Unacked int `json:"unacked_bytes"`
	// State is how it stands altogether, the worst of its types; Since when that
	// became so.
	State State     `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Types are those that it asks for, in the order in which they are sent.
	Types []Type `json:"types"`
	// Missing is for how many names, of all types, it asks in vain.
	Missing int `json:"missing"`
	// Former is set if the key is from former aggregation rules: key_changes, no_key, unknown,
	// key_stays or unchecked.
	Former Former `json:"former_rules,omitempty"`
	// Rollout is the part that it has in a staged rollout: it gets the revision as a canary, or canaries are
	// compared with it.
	Rollout *fanout.ClientRollout `json:"rollout,omitempty"`
}

// Type is how a client stands with a type.
type Type struct {
	URL string `json:"type_url"`
	// Name is the short name, like CDS.
	Name string `json:"type"`
	// State is how the client stands with it, Since when that became so.
	State State     `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Waiting is why the client was not sent, or has not confirmed, what is newest, as in "awaiting
	// ACK" or "ordered after CDS"; empty where nothing is missing.
	Waiting string `json:"waiting,omitempty"`
	// Version is that of the newest response, empty where none was sent on this
	// stream. Synced says that the client has taken it; otherwise which version it
	// holds is known by its place in the table's history only, Acked.
	Version string `json:"version,omitempty"`
	// ControlPlaneVersion is the control plane's own version of what the client has acknowledged; empty
	// if the control plane has none, or the node no longer remembers it.
	ControlPlaneVersion string `json:"control_plane_version,omitempty"`
	// Sent, Acked and Newest are generations of the table on the client's node: of
	// what it was sent, of what it took, and of the newest that it should have.
	Sent   uint64 `json:"sent_generation"`
	Acked  uint64 `json:"acked_generation"`
	Newest uint64 `json:"newest_generation"`
	// Wildcard says that it asks for everything, Names for how many names it asks.
	Wildcard bool `json:"wildcard"`
	Names    int  `json:"names"`
	// Missing is how many of the names have no resource: the control plane has none, or
	// has not answered yet. MissingNames are the first of them by name, at most 100; they
	// are listed where one client is asked for by its name.
	Missing      int      `json:"missing"`
	MissingNames []string `json:"missing_names,omitempty"`
	// Private says that it gets them over an upstream stream of its own.
	Private bool `json:"private,omitempty"`
	// SentAt is when the newest response was sent.
	SentAt time.Time `json:"sent_at,omitzero"`
	Acks   uint32    `json:"acks"`
	Nacks  uint32    `json:"nacks"`
	// Nack is the rejection since which nothing was acknowledged.
	Nack *Nack `json:"nack,omitempty"`
	// Has is the version that a client which polls says it has, and UnackedResends how many times
	// in a row it was told Version again and came back without it: it rejects that, which
	// most such clients do not say, or the answers do not arrive.
	Has            string `json:"has_version,omitempty"`
	UnackedResends uint32 `json:"unacked_resends,omitempty"`
	// Resources are told only where that is asked for; Omitted is how many more there
	// are.
	Resources []Resource `json:"resources,omitempty"`
	Omitted   int        `json:"resources_omitted,omitempty"`
}

// Resource is how a client stands with one resource that it asks for.
type Resource struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Exists says that there is one.
	Exists bool `json:"exists"`
	// Version is what the client was told; empty where it was not.
	Version string    `json:"version,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
}

// at is the place of a client in the order of all.
type at struct {
	Name string `json:"n"`
	Key  string `json:"k"`
	Peer string `json:"p"`
	Node string `json:"o"`
}

func (c *Client) at() at { return at{c.Name, c.Key, c.Peer, c.Node} }

func (a at) compare(b at) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key), strings.Compare(a.Peer, b.Peer), strings.Compare(a.Node, b.Node))
}

// describe makes a client of its streams, or of who polls as one, of which there is at least one.
func describe(node string, streams []fanout.Client, q *Query) Client {
	var c Client
	c.describe(node, streams, q)
	return c
}

// describe makes c the client of these streams, in the memory of the client that c was.
func (c *Client) describe(node string, streams []fanout.Client, q *Query) {
	types, variants := c.Types[:0], c.Variants[:0]
	for i, s := range streams {
		info := s.Info()
		if i == 0 {
			*c = Client{
				Name: info.NodeID, Cluster: info.Cluster, Key: info.Key, Rule: info.Rule, Node: node, Peer: info.Peer,
				Connected: info.Since, Types: slices.Grow(types, max(len(info.Types), 1)), Variants: variants, Former: info.Former, Rollout: info.Rollout,
			}
		}
		if info.Since.Before(c.Connected) {
			c.Connected = info.Since
		}
		if !slices.Contains(c.Variants, info.Variant) {
			c.Variants = append(c.Variants, info.Variant)
		}
		if info.Variant != fanout.PollVariant {
			c.Streams++
		}
		if info.Polled.After(c.Polled) {
			c.Polled = info.Polled
		}
		c.Unacked += info.Unacked
		for _, t := range info.Types {
			if t.Names > 0 || t.Wildcard {
				c.add(typeOf(t))
			}
		}
	}
	for _, t := range c.Types {
		c.Missing += t.Missing
	}
	for _, s := range streams {
		if q.Resources > 0 {
			c.list(s, q.Resources)
		}
		if q.Name != "" {
			c.nameMissing(s)
		}
	}
	slices.SortStableFunc(c.Types, func(a, b Type) int {
		return cmp.Or(cmp.Compare(resource.TypeOf(a.URL).Order, resource.TypeOf(b.URL).Order), cmp.Compare(a.URL, b.URL))
	})
	c.sum()
}

func typeOf(t fanout.TypeInfo) Type {
	waiting := t.Waiting
	if t.After != "" {
		waiting = "ordered after " + ShortName(t.After)
	}
	return Type{
		URL: t.TypeURL, Name: ShortName(t.TypeURL), State: t.State, Since: t.Since, Waiting: waiting, Version: t.Version, ControlPlaneVersion: t.ControlPlaneVersion, Sent: t.Sent, Acked: t.Acked, Newest: t.Head,
		Wildcard: t.Wildcard, Names: t.Names, Missing: t.Missing, Private: t.Private, SentAt: t.SentAt, Acks: t.Acks, Nacks: t.Nacks, Nack: t.LastNack,
		Has: t.Has, UnackedResends: t.UnackedRepeats,
	}
}

// add adds a type; of one that it has on two streams, the worse.
func (c *Client) add(t Type) {
	i := slices.IndexFunc(c.Types, func(o Type) bool { return o.URL == t.URL })
	if i < 0 {
		c.Types = append(c.Types, t)
		return
	}
	o := &c.Types[i]
	if cmp.Or(cmp.Compare(badness[t.State], badness[o.State]), cmp.Compare(t.Missing, o.Missing)) > 0 {
		*o = t
	}
}

// sum works out how the client stands altogether.
func (c *Client) sum() {
	if len(c.Types) == 0 {
		c.State, c.Since = NotSent, c.Connected
		return
	}
	c.State = Synced
	for _, t := range c.Types {
		if badness[t.State] > badness[c.State] {
			c.State = t.State
		}
	}
	c.Since = time.Time{}
	for _, t := range c.Types {
		switch later := t.Since.After(c.Since); {
		case t.State != c.State:
		case c.Since.IsZero(), c.State == Synced && later, c.State != Synced && !later:
			c.Since = t.Since // synced since the last one is, and stale since the first is
		}
	}
}

// list adds the resources of a stream, at most so many of each type.
func (c *Client) list(s fanout.Client, limit int) {
	for r := range s.Resources {
		i := slices.IndexFunc(c.Types, func(o Type) bool { return o.URL == r.Type.URL })
		if i < 0 {
			continue
		}
		t := &c.Types[i]
		if len(t.Resources) >= limit {
			t.Omitted++
			continue
		}
		t.Resources = append(t.Resources, Resource{Name: r.Name, State: r.State, Exists: r.Resource != nil, Version: r.Version, Changed: r.Changed})
	}
}

// mostMissing bounds the names without a resource that are listed of each type.
const mostMissing = 100

// nameMissing lists names of a stream that have no resource.
func (c *Client) nameMissing(s fanout.Client) {
	if c.Missing == 0 {
		return
	}
	for r := range s.Resources {
		if r.Resource != nil || resource.IsGlob(resource.Canonical(r.Name)) {
			continue
		}
		i := slices.IndexFunc(c.Types, func(o Type) bool { return o.URL == r.Type.URL })
		if i < 0 || len(c.Types[i].MissingNames) == mostMissing || slices.Contains(c.Types[i].MissingNames, r.Name) {
			continue
		}
		c.Types[i].MissingNames = append(c.Types[i].MissingNames, r.Name)
	}
}

// Has reports whether the client is in a state, altogether or with a type, or with
// [Missing] whether it asks for a resource that does not exist.
func (c *Client) Has(s State) bool {
	return c.State == s || slices.ContainsFunc(c.Types, func(t Type) bool { return t.is(s) })
}

// Unserved reports whether the client was sent nothing, or lacks a type because its control plane is
// unreachable. With url, only that type counts. A single type about which a control plane is silent has no such meaning: many control
// planes never answer for a type that they have no resources of.
func (c *Client) Unserved(url string) bool {
	served := false
	for _, t := range c.Types {
		if url != "" && t.URL != url {
			continue
		}
		if t.State != NotSent {
			served = true
		} else if t.Waiting == conversation.OriginUnreachable.String() {
			return true
		}
	}
	return !served
}

func (t *Type) is(s State) bool { return t.State == s || s == MissingResource && t.Missing > 0 }
