package fanout

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// admit admits a stream or returns why not. A refusal is cheap: so far the stream has only a
// goroutine.
func (s *Server) admit(st *stream) error {
	if err := s.enter(&st.caller, st.tier != nil); err != nil {
		return err
	}
	if err := s.add(st); err != nil {
		s.exit(&st.caller, st.tier != nil, "")
		return err
	}
	if st.tier == nil {
		st.mu.Lock()
		st.arrival = s.cfg.Limits.StreamStarted()
		st.mu.Unlock()
	}
	return nil
}

// leave releases the limits of an admitted stream that has ended.
func (s *Server) leave(st *stream) {
	s.cfg.Limits.StreamEnded(st.arrival)
	s.exit(&st.caller, st.tier != nil, keyOf(st.group))
}

// admitLoad and leaveLoad are admit and leave for a stream of load reports.
func (s *Server) admitLoad(st *loadStream) error {
	if err := s.enter(&st.caller, st.tier != nil); err != nil {
		return err
	}
	if err := s.addLoad(st); err != nil {
		s.exit(&st.caller, st.tier != nil, "")
		return err
	}
	return nil
}

func (s *Server) leaveLoad(st *loadStream) { s.exit(&st.caller, st.tier != nil, st.key) }

func (s *Server) enter(c *caller, node bool) error {
	l := s.cfg.Limits
	if node {
		return l.EnterPeer(c.peer)
	}
	if most := l.Values().HeaderSize; most > 0 {
		if n := c.call.HeaderSize(); n > most {
			return l.Refuse(limit.HeaderSize, c.peer, n, most, "bytes of headers")
		}
	}
	source := limit.SourceOf(c.call.Addr())
	by := c.call.Identity()
	identity := by.Identity()
	if identity != "" && c.conn != nil {
		if err := c.conn.Claim(func() (func(), error) { return l.Identify(source, identity) }); err != nil {
			return err
		}
	}
	var err error
	c.reservation, err = l.Enter(source, identity)
	return err
}

func (s *Server) exit(c *caller, node bool, key aggregation.Key) {
	if node {
		s.cfg.Limits.LeavePeer()
		return
	}
	s.cfg.Limits.Leave(c.reservation, string(key))
}

// keyOf returns the key of a client; empty if it has none yet.
func keyOf(g *cache.Group) aggregation.Key {
	if g == nil {
		return ""
	}
	return g.Key
}

// useKey books the key of a client.
func (s *Server) useKey(c *caller, key aggregation.Key) error {
	return s.cfg.Limits.Use(c.reservation, c.peer, string(key), func(most int) bool { return s.cfg.Cache.HasRoom(key, most) })
}

// checkNode checks the size of a client's Node.
func (s *Server) checkNode(c *caller, size int) error {
	if most := s.cfg.Limits.Values().NodeSize; most > 0 && size > most {
		return s.cfg.Limits.Refuse(limit.NodeSize, c.peer, size, most, "bytes of a node")
	}
	return nil
}

// throttle counts a request of size bytes. It returns the pause until a client that exceeds its rate
// is within it again. Ending the stream instead would not help: the client would reconnect at once, since it had an answer,
// and bringing it in sync again costs more than its requests.
func (s *Server) throttle(c *caller, t *limit.Tokens, size int) (pause time.Duration) {
	v := s.cfg.Limits.Values()
	pause = t.Take(time.Now(), limit.Cost(size), v.RequestsPerSecond, v.RequestBurst)
	if pause <= 0 {
		return 0
	}
	s.cfg.Limits.Count(limit.Requests, c.peer, fmt.Sprintf("more than %d requests per second on one stream (limits.max_requests_per_second): they are read later", v.RequestsPerSecond))
	return pause
}

// editedLocked applies a change of the subscription to a type, and charges the client for the added
// names, too: these stay subscribed for the linger time after the client drops them. The wait for
// that is part of the next throttle.
func (s *stream) editedLocked(ts *typeState, ed cache.Edited, wildcardAgain bool) {
	ts.edited(ed, wildcardAgain)
	s.chargeNames(ed.Added)
}

// chargeNames takes the tokens for added names.
func (s *stream) chargeNames(names []string) {
	if s.tier != nil || len(names) == 0 {
		return
	}
	size := len(names) * cache.NameCost
	for _, name := range names {
		size += len(name)
	}
	v := s.srv.cfg.Limits.Values()
	s.tokens.Take(time.Now(), limit.NameCost(size), v.RequestsPerSecond, v.RequestBurst)
}

// inSyncLocked records that the client is in sync: it has answered, or there is no content for it
// yet.
func (s *stream) inSyncLocked() {
	if s.arrival != 0 {
		s.srv.cfg.Limits.InSync(s.arrival)
		s.arrival = 0
	}
}

// maxLocators bounds the resource locators, including their parameters, in a request. Each is
// answered with its own error, which is far longer.
const maxLocators = 1000

// maxOtherFields bounds the fields of a request that are not list entries: decoding them takes
// time, though hardly any memory.
const maxOtherFields = 1000

// checkCounts refuses an encoded request whose lists are too long, before any of it is decoded.
func (s *stream) checkCounts(b []byte) error {
	c, err := resource.Count(s.delta, b, max(s.srv.cfg.MaxNames, maxOtherFields))
	if err != nil {
		return malformed(err)
	}
	if c.Other > maxOtherFields {
		return status.Errorf(codes.ResourceExhausted, "the request has more than %d fields apart from names, expected about ten", maxOtherFields)
	}
	if n := max(c.Names, c.Unsubscribe, c.Held); n > s.srv.cfg.MaxNames {
		return s.tooManyNames(n)
	}
	if most := min(s.srv.cfg.MaxNames, maxLocators); c.Locators > most {
		return s.srv.cfg.Limits.Refuse(limit.Names, s.peer, c.Locators, most, "resource locators and dynamic parameters in one request")
	}
	return nil
}

// checkRequest refuses a request that exceeds a limit, before it is applied.
func (s *stream) checkRequest(r *resource.Request) error {
	for _, l := range []resource.NameList{r.Names, r.Subscribe, r.Unsubscribe} {
		if err := checkNames(l); err != nil {
			return err
		}
	}
	for _, l := range r.Locators {
		if err := CheckName(len(l.Name)); err != nil {
			return err
		}
	}
	if r.Held.Bytes() > MaxName {
		for name := range r.Held.All() {
			if err := CheckName(len(name)); err != nil {
				return err
			}
		}
	}
	if most := s.srv.cfg.Limits.Values().NameSize; most > 0 {
		if n := max(nameBytes(r.Names, most), nameBytes(r.Subscribe, most), locatorBytes(r.Locators)); n > most {
			return s.tooManyBytes(n, most)
		}
	}
	return nil
}

// MaxName bounds one resource name, in bytes, whatever the limits are. A name is hashed under the
// lock of its table, so a name of megabytes would delay other clients.
const MaxName = 64 << 10

// CheckName refuses a name of size bytes if that exceeds [MaxName].
func CheckName(size int) error {
	if size > MaxName {
		return status.Errorf(codes.ResourceExhausted, "a resource name has %d bytes, expected at most %d", size, MaxName)
	}
	return nil
}

func checkNames(l resource.NameList) error {
	if len(l.Bytes()) <= MaxName {
		return nil
	}
	for name := range l.All() {
		if err := CheckName(len(name)); err != nil {
			return err
		}
	}
	return nil
}

// locatorBytes returns the total size of the names and parameters of locators.
func locatorBytes(all []resource.Locator) (n int) {
	for _, l := range all {
		n += len(l.Name)
		for _, p := range l.Params {
			n += len(p.Key) + len(p.Value)
		}
	}
	return n
}

// nameBytes returns the total size of the names; 0 if it cannot exceed most.
func nameBytes(l resource.NameList, most int) (n int) {
	if len(l.Bytes()) <= most {
		return 0
	}
	for name := range l.All() {
		n += len(name)
	}
	return n
}

// checkNamesLocked checks the limits on names per stream: those that it subscribes to, and those
// that must be sent or are sent and unacknowledged.
func (s *stream) checkNamesLocked() error {
	names, bytes := 0, 0
	for _, ts := range s.types {
		h := ts.table.State(&ts.watcher)
		names += max(h.Names, ts.Force.Len(), ts.ForceUnacked.Len())
		bytes += h.NameBytes
	}
	if names > s.srv.cfg.MaxNames {
		return s.tooManyNames(names)
	}
	if most := s.srv.cfg.Limits.Values().NameSize; most > 0 && bytes > most {
		return s.tooManyBytes(bytes, most)
	}
	return nil
}

func (s *stream) tooManyNames(n int) error {
	return s.refuse(limit.Names, n, s.srv.cfg.MaxNames, "names on one stream")
}

// tooMuchForKey refuses a client whose names, together with those of other clients of the key,
// exceed what the control plane can be asked for.
func (s *stream) tooMuchForKey(over *cache.NamesOver) error {
	return s.refuse(limit.KeyNames, over.Bytes, over.Bound, "bytes of names of one type asked for by the clients of this key")
}

func (s *stream) tooManyBytes(n, most int) error {
	return s.refuse(limit.NameSize, n, most, "bytes of names on one stream")
}

// refuse refuses a request of this stream. The log line is written when the stream ends, since mu
// may be locked here; see [Server.refused].
func (s *stream) refuse(n limit.Name, have, most int, what string) error {
	return s.srv.cfg.Limits.RefuseLocked(n, s.peer, have, most, what)
}

// maxTypes bounds the types of one stream whatever the limit is: about a dozen are in use. Sets of
// types are bits of a uint64.
const maxTypes = 64

// checkTypesLocked refuses a type over the limit.
func (s *stream) checkTypesLocked(t *resource.Type) error {
	most := s.srv.cfg.Limits.Values().TypesPerStream
	switch {
	case s.tier != nil && !resource.IsKnown(t.URL):
		most = maxTypes / 2 // clients may invent types, and known types must have room
	case most <= 0 || most > maxTypes || s.tier != nil:
		most = maxTypes
	}
	if n := len(s.types); n >= most {
		return s.refuse(limit.TypesPerStream, n+1, most, "resource types on one stream")
	}
	return nil
}

// maxTypesPerKey bounds the types of a key without a configured limit.
const maxTypesPerKey = 256

// checkRoom refuses a type that a group has no room for.
func (s *stream) checkRoom(g *cache.Group, t *resource.Type) error {
	most := s.srv.cfg.Limits.Values().TypesPerKey
	if most <= 0 || s.tier != nil {
		most = maxTypesPerKey
	}
	if !g.HasRoom(t, most) {
		return s.refuse(limit.TypesPerKey, most+1, most, "resource types asked for by the clients of this key")
	}
	return nil
}

// Shrink empties caches that only save work, and forgets the events of clients that have left.
func (s *Server) Shrink() {
	s.bodies.Clear()
	s.left.Clear()
}
