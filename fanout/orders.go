package fanout

import (
	"cmp"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// Target says which clients an order is about. An empty Key or Peer matches every one.
type Target struct {
	ID, Key, Peer string
}

func (t Target) matches(id, key, peer string) bool {
	return id == t.ID && (t.Key == "" || key == t.Key) && (t.Peer == "" || peer == t.Peer)
}

// Ordered is a client that an order is about. A client is one connection with one node id and key.
type Ordered struct {
	ID   string `json:"client"`
	Key  string `json:"key"`
	Peer string `json:"peer"`
	// Streams is the number of its streams.
	Streams int `json:"streams"`
	// Types are the type URLs that are sent again.
	Types []string `json:"types,omitempty"`
	// Sharing are other clients on its connection, which are closed with it: at most 20 node ids.
	Sharing []string `json:"sharing,omitempty"`
}

// maxSharing bounds the clients that [Ordered] lists.
const maxSharing = 20

// whoNow returns the client's node id and key. ok is false before its first request.
func (s *stream) whoNow() (id, key string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group == nil {
		return "", "", false
	}
	return s.nodeID, string(s.group.Key), true
}

// Kick drains the connections of clients: they are asked to open no more streams on it (GOAWAY), and
// their streams end with a reason. A client that shares its connection with others is closed with
// them. With dry, nothing is done. It returns the clients, in order.
func (s *Server) Kick(t Target, dry bool) []Ordered {
	all := []Ordered{}
	for _, g := range s.connections() {
		found := g.find(t)
		if len(found) == 0 {
			continue
		}
		all = append(all, found...)
		if !dry {
			s.drainConn(g, errKicked, kicked)
		}
	}
	return inOrder(all)
}

// find returns the clients of a connection that t matches.
func (g *connection) find(t Target) (found []Ordered) {
	var others []string
	for _, st := range g.states {
		id, key, ok := st.whoNow()
		switch {
		case !ok:
		case t.matches(id, key, st.peer):
			found = addOrdered(found, id, key, st.peer)
		case !slices.Contains(others, id) && len(others) < maxSharing:
			others = append(others, id)
		}
	}
	slices.Sort(others)
	for i := range found {
		found[i].Sharing = others
	}
	return found
}

// addOrdered counts a stream of a client, and returns the clients.
func addOrdered(all []Ordered, id, key, peer string) []Ordered {
	i := slices.IndexFunc(all, func(o Ordered) bool { return o.ID == id && o.Key == key && o.Peer == peer })
	if i < 0 {
		return append(all, Ordered{ID: id, Key: key, Peer: peer, Streams: 1})
	}
	all[i].Streams++
	return all
}

func inOrder(all []Ordered) []Ordered {
	slices.SortFunc(all, func(a, b Ordered) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Peer, b.Peer)) })
	return all
}

// Resend sends clients all resources of their subscriptions again: of one type, or of all if url is
// empty. It does what a client can ask for by subscribing again (B35): a response with what the
// client has is allowed in every variant. A type with an unanswered response is sent after the answer
// (B9), and the order of types applies (E1). With dry, nothing is done. It returns the clients, in
// order; those that do not subscribe to the type have no types.
func (s *Server) Resend(t Target, url string, dry bool) []Ordered {
	all := []Ordered{}
	for _, st := range s.snapshot() {
		id, key, ok := st.whoNow()
		if !ok || !t.matches(id, key, st.peer) || st.call.Ended() {
			continue
		}
		all = addOrdered(all, id, key, st.peer)
		i := slices.IndexFunc(all, func(o Ordered) bool { return o.ID == id && o.Key == key && o.Peer == st.peer })
		for _, u := range st.resend(url, dry) {
			if !slices.Contains(all[i].Types, u) {
				all[i].Types = append(all[i].Types, u)
			}
		}
	}
	for i := range all {
		slices.SortFunc(all[i].Types, func(a, b string) int {
			return cmp.Or(cmp.Compare(resource.TypeOf(a).Order, resource.TypeOf(b).Order), cmp.Compare(a, b))
		})
	}
	return inOrder(all)
}

// resend makes the types due again and sends what may be sent now.
func (s *stream) resend(url string, dry bool) (types []string) {
	s.mu.Lock()
	defer s.unlock()
	now := time.Now()
	for _, ts := range s.types {
		t := ts.table.Type
		if h := ts.table.State(&ts.watcher); url != "" && t.URL != url || h.IsEmpty() {
			continue
		}
		types = append(types, t.URL)
		if dry {
			continue
		}
		ts.SendAgain()
		if s.recordsEvents() {
			s.journal.Resend(now, t, s.srv.cfg.EventBytes)
		}
	}
	if !dry && !s.ended {
		s.flushLocked()
	}
	return types
}
