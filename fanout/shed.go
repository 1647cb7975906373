package fanout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/conn"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/cache"
)

// When memory is short, connections end in this order: those without a stream, oldest first; then
// clients whose cost is an outlier; then clients of a source or identity whose cost is an outlier
// and a considerable part of the memory. No others end: a client of normal cost frees next to
// nothing.

const (
	// shedPart: at most one in shedPart of the clients ends at a time, and at least one.
	shedPart = 100
	// streamlessPart: one in streamlessPart of the connections without a stream ends at a time, and
	// at least streamlessLeast. Their clients lose nothing.
	streamlessPart, streamlessLeast = 4, 100
	// streamlessGrace is the time for clients that are about to open a stream.
	streamlessGrace = time.Second
	// outlierFactor: an outlier costs more than this many times the median.
	outlierFactor = 4
	// memoryPart: one in memoryPart of the memory in use is a considerable part.
	memoryPart = 4
)

// Estimated memory, in bytes; see bench/results/idle-streams.md.
const (
	connectionCost = 24 << 10
	streamCost     = 8 << 10
	tlsCost        = 8 << 10        // of TLS on a connection; see the scenario tls in bench/results
	nameCost       = cache.NameCost // of a name that only one stream subscribes to, without its bytes
	keyCost        = 64 << 10       // of a key that only one connection uses
)

// ShedCostly ends some of the connections that cost most memory, and returns how many clients they
// had.
func (s *Server) ShedCostly() (sent int) {
	v := s.cfg.Limits.Values()
	if s.endStreamless(fmt.Sprintf("more than %d %% of this node's memory limit is in use", v.MemoryPercent)) > 0 {
		return 0
	}
	all := s.connections()
	estimateCosts(all)
	used, _ := s.cfg.Limits.Memory()
	reason := status.Errorf(codes.ResourceExhausted, "more than %d %% of this node's memory limit is in use (%s), and this client is among those that use the most", v.MemoryPercent, limit.Memory.About().Field)
	for _, g := range mostCostly(all, int(used)) {
		s.cfg.Limits.CountShed(limit.Memory, g.streams[0].peer, status.Convert(reason).Message())
		s.drainConn(g, reason, shed)
		sent += g.clients
	}
	return sent
}

// EndStreamless ends some of the connections without a stream, to make room for more connections.
func (s *Server) EndStreamless() {
	s.endStreamless("this node has as many connections as its memory limit allows")
}

// endStreamless returns how many connections it ended.
func (s *Server) endStreamless(why string) int {
	idle := s.streamless(time.Now())
	reason := status.Errorf(codes.ResourceExhausted, "%s (%s), and this connection has no stream", why, limit.Memory.About().Field)
	for _, c := range idle {
		s.cfg.Limits.CountClosed(limit.Memory, c.RemoteAddr().String(), status.Convert(reason).Message())
		if c.Handshaking() {
			c.Abort()
			continue
		}
		s.drainConn(&connection{conn: c}, reason, shed)
	}
	return len(idle)
}

// streamless returns connections without a stream that may end now: first those with the most
// unread bytes, then the oldest.
func (s *Server) streamless(now time.Time) []*conn.Conn {
	type candidate struct {
		conn   *conn.Conn
		unread int
		since  time.Time
	}
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	var all []candidate
	for _, d := range listeners {
		for _, c := range d.Open() {
			since, is := c.Streamless()
			if !is || c.GoingAway() {
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
	conns := make([]*conn.Conn, min(len(all), max(len(all)/streamlessPart, streamlessLeast)))
	for i := range conns {
		conns[i] = all[i].conn
	}
	return conns
}

// mostCostly returns the connections to end. used is the memory in use, in bytes; 0 if unknown.
func mostCostly(all []*connection, used int) []*connection {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *connection) int { return cmp.Compare(b.cost, a.cost) })
	most := len(all)/shedPart + 1
	median := all[len(all)/2].cost
	alone := func(g *connection) bool { return used > 0 && g.cost > used/memoryPart }
	n := 0
	for n < min(most, len(all)) && (all[n].cost > outlierFactor*median || alone(all[n])) {
		n++
	}
	if n > 0 {
		return all[:n]
	}
	return ofCostlyOwner(all, used, most)
}

// ofCostlyOwner returns the most expensive connections, as many as most, of the source or identity
// that costs most, if that cost is an outlier and a considerable part of used.
func ofCostlyOwner(all []*connection, used, most int) []*connection {
	byOwner := make(map[string][]*connection)
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
	if costs[first] <= outlierFactor*median || costs[first] < used/memoryPart {
		return nil
	}
	return byOwner[first][:min(most, len(byOwner[first]))]
}

// owner names the account of the connection's streams; empty for a local socket.
func (g *connection) owner() string { return g.streams[0].reservation.Owner() }

// estimateCosts sets the cost of each connection.
func estimateCosts(all []*connection) {
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

// costs estimates the memory of the connection beyond what every connection costs: TLS, unread
// responses, incomplete and unread requests, its Node, names and load reports.
func (g *connection) costs() (n int) {
	for _, st := range g.states {
		n += st.costs()
	}
	for _, st := range g.loads {
		n += st.costs()
	}
	if g.conn != nil {
		n += g.conn.Unread()
		if g.conn.Encrypted() {
			n += tlsCost
		}
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
	if s.group != nil { // then what is kept of the Node no longer changes
		n += len(s.node) + len(s.nodeID) + len(s.cluster)
		if s.by != nil {
			n += len(s.by.claim)
		}
	}
	for _, ts := range s.types {
		h := ts.table.State(&ts.watcher)
		n += h.NameBytes + nameCost*(h.Names+ts.Force.Len()+ts.ForceUnacked.Len()) + ts.claims.size() + ts.located.size()
	}
	return n
}

// costs returns the memory that the key's account uses because of the client.
func (s *loadStream) costs() int {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client == nil {
		return 0
	}
	return client.Cost()
}
