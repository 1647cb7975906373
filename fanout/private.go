package fanout

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/peer"

	"xdsrelay/fanout/gate"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// A stream gets some types through tables of its own: those that are meant for
// each client by itself (K6), and those of which it asked for a resource that
// must be neither kept nor shared (K17). Secrets it shares only with streams of the
// same key and identity, where its client has proved one. Their bodies are not kept
// either.

// ownGroups are those private groups that a stream has joined; each may be nil.
type ownGroups struct {
	sole    *cache.Group // see privateLocked
	secrets *cache.Group // see secretsLocked
}

func (o *ownGroups) leave(c *cache.Cache) {
	for _, g := range []*cache.Group{o.sole, o.secrets} {
		if g != nil {
			c.Leave(g)
		}
	}
}

func (s *stream) ownLocked() *ownGroups {
	if s.own == nil {
		s.own = &ownGroups{}
	}
	return s.own
}

// privateLocked returns the stream's own group. To the origin it is the key's
// Node with the client's own id, so that the origin can tell clients apart.
func (s *stream) privateLocked() *cache.Group {
	own := s.ownLocked()
	if own.sole == nil {
		own.sole = s.srv.cfg.Cache.JoinPrivate(s.group, aggregation.NodeOfClient(s.group.Node, s.identity(), s.nodeID))
	}
	return own.sole
}

// secretsLocked returns the group of an identity.
func (s *stream) secretsLocked(identity string) *cache.Group {
	own := s.ownLocked()
	if own.secrets == nil {
		of := s.group.Node
		own.secrets = s.srv.cfg.Cache.JoinIdentity(s.group, identity, func() *corev3.Node { return aggregation.NodeOf(of, identity) })
	}
	return own.secrets
}

// identity is what the client's certificate proves; empty for nothing.
func (s *stream) identity() string {
	by := s.client()
	return by.Identity()
}

// client is what is known of the connection.
func (s *stream) client() gate.Client {
	p, _ := peer.FromContext(s.grpc.Context())
	return gate.ClientOf(p)
}

// groupLocked returns the group whose table of t is for the stream.
func (s *stream) groupLocked(t *resource.Type) (g *cache.Group, private bool) {
	switch {
	case s.tier != nil: // its clients' own groups are where they are
	case s.srv.cfg.Private != nil && s.srv.cfg.Private(t):
		return s.privateLocked(), true
	case resource.HoldsSecrets(t.URL) && !s.sharesSecrets:
		switch by := s.client(); {
		case !by.Authenticated: // there is nothing to tell clients of a key apart by
		case by.Identity() == "":
			return s.privateLocked(), true
		default:
			return s.secretsLocked(by.Identity()), true
		}
	}
	return s.group, false
}

// moveLocked takes a type over to the stream's own group: the client asks for a
// resource that the shared table is without. A delta client is compared with what
// the origin says there as if it had come back with what it was told (B37); a
// SotW client is told everything once more.
func (s *stream) moveLocked(ts *typeState) {
	var held []resource.Held
	if ts.hasClaims() {
		held = ts.claims.held
	}
	if s.delta && !ts.isUncompared() {
		held = append(held, ts.table.Told(&ts.watcher, ts.Acked)...)
	}
	wanted := ts.table.Wanted(&ts.watcher)
	ts.table.Leave(&ts.watcher)
	ts.table, ts.private = s.privateLocked().Table(ts.table.Type), true
	ts.table.Edit(&ts.watcher, wanted)

	ts.Switch()
	ts.claims = &claims{held: held}
	s.comesBackLocked() // E5
}
