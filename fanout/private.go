package fanout

import (
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// A stream gets some types through tables of its own: those that are meant for
// each client by itself (K6), and those of which it asked for a resource that
// must be neither kept nor shared (K17). Their bodies are not kept either.

// privateLocked returns the stream's own group. To the origin it is the key's
// Node with the client's own id, so that the origin can tell clients apart.
func (s *stream) privateLocked() *cache.Group {
	if s.private == nil {
		node := proto.CloneOf(s.group.Node)
		node.Id = s.nodeID
		s.private = s.srv.cfg.Cache.JoinPrivate(s.group, node)
	}
	return s.private
}

// groupLocked returns the group whose table of t is for the stream.
func (s *stream) groupLocked(t *resource.Type) (g *cache.Group, private bool) {
	if s.tier == nil && s.srv.cfg.Private != nil && s.srv.cfg.Private(t) {
		return s.privateLocked(), true
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
		held = append(held, ts.table.Told(&ts.watcher, ts.acked)...)
	}
	wanted := ts.table.Wanted(&ts.watcher)
	ts.table.Leave(&ts.watcher)
	ts.table, ts.private = s.privateLocked().Table(ts.table.Type), true
	ts.table.Edit(&ts.watcher, wanted)

	ts.sent, ts.acked = cache.Start, cache.Start
	ts.tell, ts.refresh, ts.kept, ts.told, ts.refreshed = nil, nil, nil, nil, nil
	ts.rejected, ts.more, ts.marred = false, false, false
	ts.claims, ts.moved = &claims{held: held}, true
	s.comesBackLocked() // E5
}
