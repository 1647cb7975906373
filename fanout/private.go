package fanout

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// A stream has its own tables for some types: those that each client gets separately (K6), and
// those of which it subscribed to a resource that must not be cached or shared (K17). A client with
// a proven identity shares the tables of secrets only with streams of the same key and identity.
// Bodies from these tables are not cached either.

// ownGroups are the private groups that a stream has joined; each may be nil.
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

// privateLocked returns the stream's own group. Its upstream Node is that of the key with the
// client's own id, so that the control plane can distinguish clients.
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

// identity returns the identity that the client's certificate proves; empty for none.
func (s *stream) identity() string {
	by := s.call.Identity()
	return by.Identity()
}

// groupLocked returns the group that has the stream's table of t.
func (s *stream) groupLocked(t *resource.Type) (g *cache.Group, private bool) {
	switch {
	case s.tier != nil: // the other node has the private groups of its clients
	case s.srv.cfg.Private != nil && s.srv.cfg.Private(t):
		return s.privateLocked(), true
	case resource.HoldsSecrets(t.URL) && !s.sharesSecrets:
		switch by := s.call.Identity(); {
		case !by.Authenticated: // clients of the key cannot be distinguished
		case by.Identity() == "":
			return s.privateLocked(), true
		default:
			return s.secretsLocked(by.Identity()), true
		}
	}
	return s.group, false
}

// moveLocked moves a type to the stream's own group: the client subscribed to a resource that the
// shared table does not have. A delta client is compared with the content there as if it had
// reconnected with what it was sent (B37); a SotW client is sent everything again.
func (s *stream) moveLocked(ts *typeState) {
	var held []resource.Held
	if ts.hasClaims() {
		held = ts.claims.held
	}
	if s.delta && !ts.isUncompared() {
		held = append(held, ts.table.HeldAt(&ts.watcher, ts.Acked)...)
	}
	wanted := ts.table.Wanted(&ts.watcher)
	ts.table.Leave(&ts.watcher)
	ts.table, ts.private, ts.paced = s.privateLocked().Table(ts.table.Type), true, false
	ts.table.Edit(&ts.watcher, wanted)

	ts.Switch()
	ts.claims = &claims{held: held}
	s.comesBackLocked() // E5
}
