package fanout

import (
	"slices"
	"time"

	"xdsrelay/fanout/bodycache"
	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// body is the response for all clients in the same position, without the nonce. It is immutable.
type body struct {
	data []byte // encoded; nil if there is nothing to send
	kind bodyKind
	// answer is what it has of the cache's answer, if it has content.
	answer conversation.Answer
	// exposure is what a client that was sent it is exposed to of a candidate.
	exposure Exposure
	// to is the position of a client that has the response.
	to cache.Position
	// version identifies all content that the subscription sees. proof is the same if a client with
	// this version has everything that would be sent (B39); empty if none proves that.
	version, proof string
	// endpoints are the names of the endpoints of the new and changed clusters in it (E3).
	endpoints *cache.Names
	// withheld and unrefreshed must be sent later; see cache.Changes.
	withheld, unrefreshed *cache.Names
	unknown, unjudged     *cache.Names           // of the forced names
	newest                uint64                 // the newest generation when it was made
	source                string                 // control_plane.identifier of the control plane
	sentVersion           string                 // the version in the response
	system                resource.SystemVersion // the version that a delta control plane gives to all content that the client then has
	failed                []string               // names for which it has an error
	resources             int
	packing               *packing // nil if it is never compressed
	only                  *place   // its place in the cache, if it was made for one client; otherwise nil
	err                   error
}

// bodyKind is what a body is about.
type bodyKind uint8

const (
	// ofContent: an answer of the cache.
	ofContent bodyKind = iota
	// ofLocators: refusals of resource locators alone (G9); see located.
	ofLocators
)

// place is where a body is in the cache.
type place struct {
	key  bodyKey
	slot *bodycache.Slot[body]
}

// form is how responses are encoded for a client. Clients share bodies only if their forms are
// equal.
type form struct {
	delta bool // the incremental variant; otherwise SotW
	// v2 is version 2 of the protocol, for the types of that version (J2). It has no lifetimes,
	// heartbeats and errors, whatever features a client names (J3): resource.Message omits them.
	v2 bool
	// timed means that the client accepts TTLs and heartbeats (F1).
	timed bool
	// relay means another node of the tier; see peers.go.
	relay bool
}

// bodyKey identifies the clients that share a body: those with the same subscription in the same state,
// for which the same is asked, in the same form. All responses for one form and type have the same size
// limit, so the key also distinguishes parts (B40).
type bodyKey struct {
	subscription, gen, noted uint64
	known                    bool // an answer of the control plane without a change may be news (K13)
	form                     form
	query                    cache.QueryKey
}

// bodyLocked returns the answer to q, which all clients in the same position share. A body of a private
// group is not kept (K17), and that of a subscription with one client until it has been sent.
func (s *stream) bodyLocked(ts *typeState, h *cache.SubscriptionState, q *cache.Query) *body {
	if ts.private {
		return s.srv.buildBody(ts, q, s.form)
	}
	k := bodyKey{subscription: h.Subscription, gen: h.Gen, noted: s.noted(h), known: h.Answer == cache.Answered, form: s.form, query: q.Key()}
	slot := s.srv.bodies.Slot(k)
	if b := slot.Value(); b != nil {
		return b
	}
	return s.srv.bodies.Fill(k, slot, func() (*body, int64) {
		began := time.Now()
		b := s.srv.buildBody(ts, q, s.form)
		ts.metrics.built(s.newestLocked(ts, q.Since, h.Gen).Context(), time.Since(began))
		at := &place{k, slot}
		b.packing = s.srv.packingOf(ts.table.Type, b, at)
		if h.Sole && b.data != nil {
			b.only = at
		}
		size := b.size()
		if b.idle() || h.Sole && b.data == nil {
			size = -1
		}
		return b, size
	})
}

// manyNames: bodies that encode nothing and have more bytes of names are not kept.
const manyNames = 4 << 10

// idle reports whether a body encodes nothing and has many names: names that a client requested and
// that do not exist. Computing it again costs no more than the request did, and keeping it would
// let one client fill the cache with names that it makes up.
func (b *body) idle() bool { return b.err == nil && b.data == nil && b.size() > manyNames }

// size returns the memory of a body, in bytes: the encoded response and the names that belong to
// it. A client can make these many even if nothing is encoded.
func (b *body) size() int64 {
	return int64(cap(b.data)) + b.endpoints.Size() + b.withheld.Size() + b.unrefreshed.Size() + b.unknown.Size() + b.unjudged.Size()
}

// buildBody queries the cache and encodes the answer. It runs once per bodyKey.
func (s *Server) buildBody(ts *typeState, q *cache.Query, f form) *body {
	c, err := ts.table.Changes(&ts.watcher, *q)
	if err != nil {
		return &body{err: errTooFarBehind}
	}
	b := &body{
		to: c.To, version: c.Version, source: c.Source,
		withheld: c.Withheld, unrefreshed: c.Unrefreshed, unknown: c.Unknown, unjudged: c.Unjudged, newest: c.Newest,
		resources: len(c.Resources), failed: c.Failed, system: c.System,
		answer: answerOf(&c), exposure: exposureTo(&c), proof: proofOf(&c),
	}
	switch {
	case f.relay && (c.Derived || c.More || c.Removals == cache.KeptFromNode):
		c.Version = ""
	case f.delta && !f.relay && c.System.Version != "": // SotW clients of other nodes must see the same version (D7)
		c.Version = c.System.Version
	}
	b.sentVersion = c.Version
	t, empty := ts.table.Type, c.Empty()
	if !f.delta {
		// F7, F8: SotW has no heartbeats that all clients understand.
		c.Resources, c.Heartbeats = withSotW(append(c.Resources, c.Heartbeats...)), nil
	}
	partialSotW := !f.delta && !t.FullState
	if empty || partialSotW && len(c.Resources)+len(c.Errors) == 0 { // B32
		b.answer.Extent = conversation.Nothing
		return b
	}
	b.data = s.encode(t, f, &c)
	b.endpoints = endpointsOf(c.News)
	return b
}

// answerOf returns what a conversation has to know of an answer, in a form that can say all of it.
func answerOf(c *cache.Changes) conversation.Answer {
	return conversation.Answer{Extent: extentOf(c), Rest: leftBy(c), Removals: c.Removals}
}

func extentOf(c *cache.Changes) conversation.Extent {
	switch {
	case c.Empty():
		return conversation.Nothing
	case len(c.Resources) > 0:
		return conversation.Resources
	case c.Locals > 0 && c.Locals == len(c.Errors) && len(c.Removed) == 0:
		return conversation.OnlyUnreachable
	}
	return conversation.NoResources
}

func leftBy(c *cache.Changes) conversation.Rest {
	switch {
	case c.More:
		return conversation.PartsLeft
	case !c.Known:
		return conversation.UnknownLeft
	}
	return conversation.NothingLeft
}

// exposureTo returns what a client that is sent an answer is exposed to of a candidate.
func exposureTo(c *cache.Changes) Exposure {
	if c.Replaced {
		return Exposed
	}
	return NotExposed
}

// proofOf returns the version that proves that a client has all of an answer: it was computed from the
// content, and there is nothing in the answer that it does not cover.
func proofOf(c *cache.Changes) string {
	if !c.Derived || len(c.Lifetimes)+len(c.Errors) > 0 {
		return ""
	}
	return c.Version
}

// withSotW omits resources without a SotW form (D8, G8).
func withSotW(rs []*resource.Resource) []*resource.Resource {
	lacks := func(r *resource.Resource) bool { return !r.HasSotW() }
	if !slices.ContainsFunc(rs, lacks) {
		return rs
	}
	return slices.DeleteFunc(slices.Clone(rs), lacks)
}

func (s *Server) encode(t *resource.Type, f form, c *cache.Changes) []byte {
	size := 256
	for _, r := range c.Resources {
		size += r.WireSize()
	}
	for _, n := range c.Removed {
		size += len(n) + 8
	}
	m := &resource.Message{
		Type: t, Version: c.Version, ControlPlane: s.identifier(c.Source), Resources: c.Resources, Removed: c.Removed,
		Heartbeats: c.Heartbeats, Lifetimes: c.Lifetimes, Errors: c.Errors, RemovedNames: c.RemovedNames, Extra: c.Extra,
	}
	if f.delta {
		return resource.AppendDelta(make([]byte, 0, size), m)
	}
	return resource.AppendSotW(make([]byte, 0, size), m)
}

// bodyLimit bounds the resources in one response, in bytes (B40): the limit minus a margin for the
// rest.
func (s *Server) bodyLimit() int { return s.cfg.MaxSendBytes - s.cfg.MaxSendBytes/16 }

// identifier returns control_plane.identifier: this node and the control plane behind it (K7).
func (s *Server) identifier(source string) string {
	if source == "" {
		return s.cfg.NodeName
	}
	return s.cfg.NodeName + " <- " + source
}

func endpointsOf(rs []*resource.Resource) *cache.Names {
	var names []string
	for _, r := range rs {
		if r.Endpoints != "" {
			names = append(names, r.Endpoints)
		}
	}
	return cache.NewNames(names)
}
