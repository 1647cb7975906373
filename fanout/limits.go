package fanout

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// admit lets a stream in, or says why not. What it costs to refuse one is little: so
// far there is a goroutine and nothing else.
func (s *Server) admit(st *stream, p *peer.Peer) error {
	if err := s.enter(st.grpc.Context(), &st.caller, p, st.tier != nil); err != nil {
		return err
	}
	if err := s.add(st); err != nil {
		s.exit(&st.caller, st.tier != nil, "")
		return err
	}
	if st.tier == nil {
		st.mu.Lock()
		st.arrival = s.cfg.Limits.Came()
		st.mu.Unlock()
	}
	return nil
}

// leave takes a stream that was admitted and has ended out of the limits.
func (s *Server) leave(st *stream) {
	s.cfg.Limits.Gone(st.arrival)
	s.exit(&st.caller, st.tier != nil, keyOf(st.group))
}

// admitLoad and leaveLoad are the same for a stream of load reports.
func (s *Server) admitLoad(st *loadStream, p *peer.Peer) error {
	if err := s.enter(st.grpc.Context(), &st.caller, p, st.tier != nil); err != nil {
		return err
	}
	if err := s.addLoad(st); err != nil {
		s.exit(&st.caller, st.tier != nil, "")
		return err
	}
	return nil
}

func (s *Server) leaveLoad(st *loadStream) { s.exit(&st.caller, st.tier != nil, st.key) }

func (s *Server) enter(ctx context.Context, c *caller, p *peer.Peer, node bool) error {
	l := s.cfg.Limits
	if node {
		return l.EnterPeer(c.peer)
	}
	if most := l.Values().HeaderSize; most > 0 {
		if n := headerSize(ctx); n > most {
			return l.Refuse(limit.HeaderSize, c.peer, n, most, "bytes of headers")
		}
	}
	var source limit.Source
	identity := ""
	if p != nil {
		source = limit.SourceOf(p.Addr)
		if p.AuthInfo != nil {
			claim := aggregation.PeerFrom(p.AuthInfo, p.Addr)
			identity = claim.Identity()
		}
	}
	if identity != "" && c.conn != nil {
		if err := c.conn.Claim(func() (func(), error) { return l.Identify(source, identity) }); err != nil {
			return err
		}
	}
	var err error
	c.stay, err = l.Enter(source, identity)
	return err
}

func (s *Server) exit(c *caller, node bool, key aggregation.Key) {
	if node {
		s.cfg.Limits.LeavePeer()
		return
	}
	s.cfg.Limits.Leave(c.stay, string(key))
}

// keyOf is the key of a client, empty if it has none yet.
func keyOf(g *cache.Group) aggregation.Key {
	if g == nil {
		return ""
	}
	return g.Key
}

// headerSize is how large the headers of a stream are, but for those that HTTP/2
// itself defines, as its setting counts them (RFC 9113, 6.5.2).
func headerSize(ctx context.Context) (n int) {
	const each = 32
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		for _, v := range values {
			n += len(name) + len(v) + each
		}
	}
	return n
}

// useKey books the key of a client.
func (s *Server) useKey(c *caller, key aggregation.Key) error {
	return s.cfg.Limits.Use(c.stay, c.peer, string(key), func(most int) bool { return s.cfg.Cache.HasRoom(key, most) })
}

// checkNode bounds the Node of a client.
func (s *Server) checkNode(c *caller, size int) error {
	if most := s.cfg.Limits.Values().NodeSize; most > 0 && size > most {
		return s.cfg.Limits.Refuse(limit.NodeSize, c.peer, size, most, "bytes of a node")
	}
	return nil
}

// mostReceived is how large a request may be, in bytes. What another node of the tier asks
// for is the sum of its clients, so it is not bounded.
func (s *Server) mostReceived(tier *peering) int {
	if tier != nil {
		return math.MaxInt32
	}
	return s.cfg.MaxReceiveBytes
}

// taken notes that a message was taken which is not the first of its stream.
func (c *caller) taken(size int) {
	if c.conn != nil {
		c.conn.Taken(size)
	}
}

// hold reads nothing more from a client for as long as it was too fast. An end to the
// stream would not do: the client would come back at once, since it had an answer, and
// to bring it in sync again costs more than what it asks for.
func (s *Server) hold(ctx context.Context, c *caller, t *limit.Tokens, size int) {
	v := s.cfg.Limits.Values()
	wait := t.Take(time.Now(), limit.Cost(size), v.RequestsPerSecond, v.RequestBurst)
	if wait <= 0 {
		return
	}
	s.cfg.Limits.Count(limit.Requests, c.peer, fmt.Sprintf("more than %d requests per second on one stream (limits.requests_per_second): they are read later", v.RequestsPerSecond))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// editedLocked takes in what has changed about the subscription to a type, and charges the
// client for the names that it now asks for, too: they stay subscribed for the linger time
// after it has dropped them. What it has to wait for that is part of hold.
func (s *stream) editedLocked(ts *typeState, ed cache.Edited, wildcardAgain bool) {
	ts.edited(ed, wildcardAgain)
	s.chargeNames(ed.Added)
}

// chargeNames takes the tokens for names that a request changes.
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

// inSyncLocked notes that the client was brought in sync: it has answered, or there is
// nothing to tell it yet.
func (s *stream) inSyncLocked() {
	if s.arrival != 0 {
		s.srv.cfg.Limits.InSync(s.arrival)
		s.arrival = 0
	}
}

// maxLocators bounds the resource locators in a request, with their parameters. Each is
// answered with an error of its own, which is far longer.
const maxLocators = 1000

// maxOtherFields bounds the fields of a request that are no entries of a list: reading them
// takes time, though hardly any memory.
const maxOtherFields = 1000

// checkCounts refuses an encoded request that lists too much, before any of it is decoded.
func (s *stream) checkCounts(b []byte) error {
	c, err := resource.Count(s.delta, b, max(s.srv.cfg.MaxNames, maxOtherFields))
	if err != nil {
		return malformed(err)
	}
	if c.Other > maxOtherFields {
		return status.Errorf(codes.ResourceExhausted, "the request has more than %d fields beside names, expected about ten", maxOtherFields)
	}
	if n := max(c.Names, c.Unsubscribe, c.Held); n > s.srv.cfg.MaxNames {
		return s.tooManyNames(n)
	}
	if most := min(s.srv.cfg.MaxNames, maxLocators); c.Locators > most {
		return s.srv.cfg.Limits.Refuse(limit.Names, s.peer, c.Locators, most, "resource locators and dynamic parameters in one request")
	}
	return nil
}

// checkRequest refuses a request that asks for too much, before it is applied.
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
	for _, h := range r.Held {
		if err := CheckName(len(h.Name)); err != nil {
			return err
		}
	}
	if most := s.srv.cfg.Limits.Values().NameSize; most > 0 {
		if n := max(nameBytes(r.Names, most), nameBytes(r.Subscribe, most), locatorBytes(r.Locators)); n > most {
			return s.tooManyBytes(n, most)
		}
	}
	return nil
}

// MaxName bounds one resource name, in bytes, whatever the limits are. A name is hashed while
// the table of its type is locked, so that one of megabytes would keep other clients waiting.
const MaxName = 64 << 10

// CheckName refuses a name of so many bytes that is longer than [MaxName].
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

// locatorBytes is how long what is asked for by locators is together.
func locatorBytes(all []resource.Locator) (n int) {
	for _, l := range all {
		n += len(l.Name)
		for _, p := range l.Params {
			n += len(p.Key) + len(p.Value)
		}
	}
	return n
}

// nameBytes is how long names are together; 0 where they cannot be longer than most.
func nameBytes(l resource.NameList, most int) (n int) {
	if len(l.Bytes()) <= most {
		return 0
	}
	for name := range l.All() {
		n += len(name)
	}
	return n
}

// checkNamesLocked holds the bounds on names per stream: on those that it
// subscribes to, and on those that it has to be told and never acknowledges.
func (s *stream) checkNamesLocked() error {
	names, bytes := 0, 0
	for _, ts := range s.types {
		h := ts.table.Head(&ts.watcher)
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

// tooMuchForKey refuses a client whose names the control plane could not be asked for
// together with what other clients of the key ask for.
func (s *stream) tooMuchForKey(over *cache.NamesOver) error {
	return s.refuse(limit.KeyNames, over.Bytes, over.Bound, "bytes of names of one type asked for by the clients of this key")
}

func (s *stream) tooManyBytes(n, most int) error {
	return s.refuse(limit.NameSize, n, most, "bytes of names on one stream")
}

// refuse refuses what the client asks for on this stream. The line of the log is written
// when the stream ends, since mu may be locked here; see [Server.refused].
func (s *stream) refuse(n limit.Name, have, most int, what string) error {
	return s.srv.cfg.Limits.RefuseLocked(n, s.peer, have, most, what)
}

// maxTypes bounds the types of one stream whatever the limit is: there are about a
// dozen in use. Sets of them are bits of a uint64.
const maxTypes = 64

// checkTypesLocked refuses a type beyond the limit.
func (s *stream) checkTypesLocked(t *resource.Type) error {
	most := s.srv.cfg.Limits.Values().TypesPerStream
	switch {
	case s.tier != nil && !resource.IsKnown(t.URL):
		most = maxTypes / 2 // clients may invent types, and the others must have room
	case most <= 0 || most > maxTypes || s.tier != nil:
		most = maxTypes
	}
	if n := len(s.types); n >= most {
		return s.refuse(limit.TypesPerStream, n+1, most, "resource types on one stream")
	}
	return nil
}

// maxTypesPerKey bounds the types of a key where no limit does.
const maxTypesPerKey = 256

// checkRoom refuses a type of which a group takes no more.
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

// Shrink forgets what is kept only to save work.
func (s *Server) Shrink() { s.bodies.Clear() }
