package fanout

import (
	"errors"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/authz"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// RulingKind is the kind of a [Ruling].
type RulingKind int

// The kinds.
const (
	// GetsKey: the client is allowed and gets a key.
	GetsKey RulingKind = iota
	// NotAllowed: authorization refuses the client.
	NotAllowed
	// NoKey: aggregation refuses the client.
	NoKey
	// AccessUnknown and KeyUnknown: the rules read something that the node did not keep of the
	// client, so only a new request of the client can decide. Of these clients, a reload ends the
	// streams if authorization rules do.
	AccessUnknown
	KeyUnknown
)

// Ruling is what rules decide about a connected client. Making it changes nothing.
type Ruling struct {
	Kind RulingKind
	// Key is the key that the client would get, with GetsKey.
	Key string
	// Rule is the rule that decides; empty if none matches or the kind is unknown.
	Rule string
	// Reason is why the rule refuses, as in metrics; empty unless it does.
	Reason string
	// Changes is set if the client has another key now, or shares secrets otherwise.
	Changes bool
	// Identity is what the client's certificate proves; empty without one.
	Identity string
	// Polls is set for a polling client, which has no stream.
	Polls bool
}

// Kept is what a node keeps of a client's Node.
type Kept struct {
	// Node is encoded, and has the fields in Set, as bits by number, and those parts of others that
	// Also names.
	Node string
	Set  uint64
	Also aggregation.Fields
	// Peer is what the connection proves; nil if that is not kept.
	Peer *aggregation.Peer
}

// Rule decides about a client by other rules than those that admitted it. policy may be nil. It
// takes as long as an admission, and no lock.
func (k Kept) Rule(rules *aggregation.Rules, policy *authorize.Policy) Ruling {
	kept := func(r aggregation.Reads) bool { return r.Within(k.Also, k.Set) && (k.Peer != nil || !r.Client) }
	var node corev3.Node
	if proto.Unmarshal([]byte(k.Node), &node) != nil {
		return Ruling{Kind: AccessUnknown} // cannot happen: it was decoded before
	}
	var r Ruling
	var peer aggregation.Peer
	if k.Peer != nil {
		peer = *k.Peer
		r.Identity = peer.Identity()
	}
	if !policy.Open() {
		if !kept(policy.ReadsAll()) {
			r.Kind = AccessUnknown
			return r
		}
		if refused := authorize.AsRefusal(policy.Check(&node, peer)); refused != nil {
			r.Kind, r.Rule, r.Reason = NotAllowed, refused.Rule, string(refused.Reason)
			return r
		}
	}
	res, err := rules.ResolveKept(&node, peer, kept)
	refused, _ := errors.AsType[*aggregation.Refusal](err)
	switch {
	case refused != nil:
		r.Kind, r.Rule, r.Reason = NoKey, refused.Rule, string(refused.Reason)
	case err != nil:
		r.Kind = KeyUnknown
	default:
		r.Key, r.Rule = string(res.Key), res.Rule
	}
	return r
}

// keptOf returns what is kept of a caller whose stream has kept node.
func keptOf(c *caller, node string, set uint64, by authz.Client) Kept {
	k := Kept{Node: node, Set: set, Peer: &by.Peer}
	if c.by != nil {
		k.Node, k.Also = node+c.by.claim, c.by.reads()
	}
	return k
}

// Rule implements [Client].
func (c client) Rule(rules *aggregation.Rules, policy *authorize.Policy) Ruling {
	r := keptOf(&c.caller, c.node, uint64(c.fields), c.call.Identity()).Rule(rules, policy)
	r.Changes = r.Kind == GetsKey && c.changedBy(rules, r)
	return r
}

// changedBy reports whether the stream's key, or how it shares secrets, is not that of a ruling.
func (s *stream) changedBy(rules *aggregation.Rules, r Ruling) bool {
	return r.Key != string(s.group.Key) || rules.ShareSecrets(r.Rule) != s.sharesSecrets
}
