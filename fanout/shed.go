package fanout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/door"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/cache"
)

// Where memory is short, connections end in this order: those without a stream, oldest
// first; then clients that cost far more than most; then those of a source or an identity
// that costs far more than most, and holds a good part of the memory by itself. Nobody
// else: to end a client that costs as much as most do frees next to nothing.

const (
	// shedPart of the clients end at a time, and at least one.
	shedPart = 100
	// streamlessPart of the connections without a stream end at a time, and at least
	// streamlessLeast: nobody loses anything by that.
	streamlessPart, streamlessLeast = 4, 100
	// streamlessGrace is for clients that are about to open a stream.
	streamlessGrace = time.Second
	// far is how many times as much as the median something has to cost to be far from it.
	far = 4
	// memoryPart of the memory in use is a good part of it.
	memoryPart = 4
)

// Roughly what things cost in memory, in bytes; see bench/results/idle-streams.md.
const (
	connectionCost = 24 << 10
	streamCost     = 8 << 10
	nameCost       = cache.NameCost // of one that a stream alone asks for, without its bytes
	keyCost        = 64 << 10       // of one that a connection alone asks for
)

// ShedCostly ends some of the connections that cost most memory, and returns how many
// clients were on them.
func (s *Server) ShedCostly() (sent int) {
	v := s.cfg.Limits.Values()
	if s.endStreamless(fmt.Sprintf("more than %d %% of this node's memory are in use", v.MemoryPercent)) > 0 {
		return 0
	}
	all := s.guests()
	charge(all)
	used, _ := s.cfg.Limits.Memory()
	reason := status.Errorf(codes.ResourceExhausted, "more than %d %% of this node's memory are in use (%s), and this client is among those that take most", v.MemoryPercent, limit.Memory.About().Field)
	for _, g := range mostCostly(all, int(used)) {
		s.cfg.Limits.Count(limit.Memory, g.streams[0].peer, status.Convert(reason).Message())
		s.sendAway(g, reason, memory)
		sent += g.clients
	}
	return sent
}

// EndStreamless ends some of the connections without a stream, since there is no room for
// more connections.
func (s *Server) EndStreamless() {
	s.endStreamless("this node has as many connections as its memory limit has room for")
}

// endStreamless returns how many connections it has ended.
func (s *Server) endStreamless(why string) int {
	idle := s.streamless(time.Now())
	reason := status.Errorf(codes.ResourceExhausted, "%s (%s), and this connection has no stream", why, limit.Memory.About().Field)
	for _, c := range idle {
		s.cfg.Limits.Count(limit.Memory, c.RemoteAddr().String(), status.Convert(reason).Message())
		if c.Arriving() {
			c.Abort()
			continue
		}
		s.sendAway(&guest{conn: c}, reason, memory)
	}
	return len(idle)
}

// streamless returns connections without a stream that may end now: those first on which
// most has arrived that is no stream of ours, then the oldest.
func (s *Server) streamless(now time.Time) []*door.Conn {
	type candidate struct {
		conn   *door.Conn
		unread int
		since  time.Time
	}
	s.mu.Lock()
	doors := s.doors
	s.mu.Unlock()
	var all []candidate
	for _, d := range doors {
		for _, c := range d.Open() {
			since, is := c.Streamless()
			if !is || c.Going() {
				continue
			}
			if unread := c.Unread(); unread >= connectionCost || now.Sub(since) >= streamlessGrace {
				all = append(all, candidate{c, unread / connectionCost, since})
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.unread, a.unread), a.since.Compare(b.since))
	})
	conns := make([]*door.Conn, min(len(all), max(len(all)/streamlessPart, streamlessLeast)))
	for i := range conns {
		conns[i] = all[i].conn
	}
	return conns
}

// mostCostly returns the guests that are to end, of all those there are; used is how much
// memory is in use, 0 if that is not known.
func mostCostly(all []*guest, used int) []*guest {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *guest) int { return cmp.Compare(b.cost, a.cost) })
	most := len(all)/shedPart + 1
	median := all[len(all)/2].cost
	alone := func(g *guest) bool { return used > 0 && g.cost > used/memoryPart }
	n := 0
	for n < min(most, len(all)) && (all[n].cost > far*median || alone(all[n])) {
		n++
	}
	if n > 0 {
		return all[:n]
	}
	return ofCostlyOwner(all, used, most)
}

// ofCostlyOwner returns up to so many of the most costly guests of the source or identity
// that costs most, if that is far more than most cost, and a good part of what is used.
func ofCostlyOwner(all []*guest, used, most int) []*guest {
	byOwner := make(map[string][]*guest)
	costs := make(map[string]int)
	for _, g := range all {
		if o := g.owner(); o != "" {
			byOwner[o] = append(byOwner[o], g)
			costs[o] += g.cost
		}
	}
	if len(byOwner) < 2 || used == 0 {
		return nil
	}
	owners := make([]string, 0, len(byOwner))
	for o := range byOwner {
		owners = append(owners, o)
	}
	slices.SortFunc(owners, func(a, b string) int { return cmp.Or(cmp.Compare(costs[b], costs[a]), cmp.Compare(a, b)) })
	first, median := owners[0], costs[owners[len(owners)/2]]
	if costs[first] <= far*median || costs[first] < used/memoryPart {
		return nil
	}
	return byOwner[first][:min(most, len(byOwner[first]))]
}

// owner is whose account the guest's streams are in; empty for a local socket.
func (g *guest) owner() string { return g.streams[0].stay.Owner() }

// charge finds out what each guest costs.
func charge(all []*guest) {
	keys := make(map[*cache.Group]int)
	for _, g := range all {
		for _, st := range g.states {
			keys[st.groupNow()]++
		}
	}
	for _, g := range all {
		g.cost = connectionCost + streamCost*len(g.streams) + g.costs()
		for _, st := range g.states {
			if n := keys[st.groupNow()]; n > 0 {
				g.cost += keyCost / n
			}
		}
	}
}

// costs is roughly what the guest takes more than every guest does: what it does not
// read, requests that are not complete or wait, its Node, names, and what it has reported.
func (g *guest) costs() (n int) {
	for _, st := range g.states {
		n += st.costs()
	}
	for _, st := range g.loads {
		n += st.costs()
	}
	if g.conn != nil {
		n += g.conn.Unread()
	}
	return n
}

func (s *stream) groupNow() *cache.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.group
}

func (s *stream) costs() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = s.unacked
	if s.group != nil { // then what was kept of the Node does not change any more
		n += len(s.node) + len(s.nodeID) + len(s.cluster)
		if s.by != nil {
			n += len(s.by.claim)
		}
	}
	for _, ts := range s.types {
		h := ts.table.Head(&ts.watcher)
		n += h.NameBytes + nameCost*(h.Names+ts.Force.Len()+ts.ForceUnacked.Len()) + ts.claims.size() + ts.located.size()
	}
	return n
}

// costs is what the key's account holds because of the client.
func (s *loadStream) costs() int {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client == nil {
		return 0
	}
	return client.Cost()
}
