package fanout

import (
	"cmp"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A stream keeps the key that it was given when its client connected. After a change of the
// aggregation rules, the recheck of all streams compares each key with the one that the new rules
// give, so that the clients on former rules can be counted and moved.

// Former is how a stream with a key from former rules compares with the rules in force.
type Former string

// The values; "" means that the rules in force gave the key.
const (
	FormerKeyChanges Former = "key_changes" // the rules in force give another key
	FormerRefused    Former = "no_key"      // the rules in force give no key
	FormerUnknown    Former = "unknown"     // they read something that the node did not keep
	FormerKeyStays   Former = "key_stays"   // they give the same key
	FormerUnchecked  Former = "unchecked"   // the comparison follows within seconds
)

// formers are the values as a stream keeps them.
var formers = [...]Former{"", FormerKeyChanges, FormerRefused, FormerUnknown, FormerKeyStays}

const formerBits = 3

// errFormerRules ends the streams of clients with a key from former rules.
var errFormerRules = status.Error(codes.Unavailable, "the aggregation rules changed: reconnect to get the key that the new rules give")

// RulesChanged marks all streams as being on former rules until they are compared with the new
// ones, which it starts.
func (s *Server) RulesChanged() {
	s.ruleSets.Add(1)
	s.Recheck()
}

// former returns how the stream's key compares with the rules in force.
func (s *stream) former() Former {
	ruled := s.ruled.Load()
	if ruled>>formerBits != s.srv.ruleSets.Load() {
		return FormerUnchecked
	}
	return formers[ruled&(1<<formerBits-1)]
}

// compareRules sets what former returns, if rules changed since it was last set. The stream must
// have a key.
func (s *stream) compareRules() {
	set := s.srv.ruleSets.Load()
	if s.ruled.Load()>>formerBits == set {
		return
	}
	rules := s.srv.cfg.Rules()
	is := FormerKeyStays
	switch r := keptOf(&s.caller, s.node, uint64(s.fields), s.call.Identity()).Rule(rules, nil); {
	case r.Kind == KeyUnknown || r.Kind == AccessUnknown:
		is = FormerUnknown
	case r.Kind != GetsKey:
		is = FormerRefused
	case s.changedBy(rules, r):
		is = FormerKeyChanges
	}
	s.ruled.Store(set<<formerBits | uint32(slices.Index(formers[:], is))) //nolint:gosec // it is one of them
}

// moves reports whether a client should reconnect to be on the rules in force. One that they refuse
// should not: it would lose its stream.
func (f Former) moves() bool { return f == FormerKeyChanges || f == FormerUnknown }

// CountFormer counts the streams of clients on former rules. It is nil if there are none.
func (s *Server) CountFormer() map[Former]int {
	if s.ruleSets.Load() == 0 {
		return nil
	}
	var count map[Former]int
	for _, st := range s.snapshot() {
		if st.groupNow() == nil {
			continue
		}
		if is := st.former(); is != "" {
			if count == nil {
				count = make(map[Former]int)
			}
			count[is]++
		}
	}
	return count
}

// EndFormer drains connections of clients on former rules that would get another key, or whose new
// key is unknown, but none of clients that would get no key. They have at most this many streams, but
// at least one connection is drained. Clients to which nothing is in flight are first. It returns the
// number of streams that it ended.
func (s *Server) EndFormer(most int) (ended int) {
	if most <= 0 || s.ruleSets.Load() == 0 {
		return 0
	}
	due := slices.DeleteFunc(s.connections(), func(g *connection) bool {
		move := false
		for _, st := range g.states {
			if st.groupNow() == nil {
				continue
			}
			is := st.former()
			if is == FormerRefused {
				return true
			}
			move = move || is.moves()
		}
		return !move
	})
	slices.SortStableFunc(due, func(a, b *connection) int { return cmp.Compare(yes(b.quiet), yes(a.quiet)) })
	for _, g := range due {
		if ended > 0 && ended+g.clients > most {
			break
		}
		s.drainConn(g, errFormerRules, formerRules)
		ended += g.clients
	}
	return ended
}
