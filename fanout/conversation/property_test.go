package conversation

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"xdsrelay/relay/cache"
)

// script drives a conversation as the shell does, with a table that gets newer.
type script struct {
	*Conversation
	gen   uint64
	nonce uint64
	bytes int
	// unaccepted are the names that the client was sent since it accepted all, or rejected.
	unaccepted *cache.Names
}

func newScript() *script {
	return &script{Conversation: &Conversation{Sent: cache.Start, Acked: cache.Start}, gen: 1}
}

// result is the outcome of a query now.
func (s *script) result(q *cache.Query, more bool) *Result {
	to := cache.Position{Gen: s.gen, Removed: s.gen, Noted: s.gen}
	if more {
		to.Gen = max(q.Since.Gen, s.gen/2)
	}
	return &Result{To: to, Newest: s.gen, More: more}
}

// cause makes an event happen, if it is legal now.
func (s *script) cause(e Event, name string) {
	if !transitions.Cell(e, s.index()).Legal {
		return
	}
	names := cache.NewNames([]string{name})
	q := s.News()
	switch e {
	case SentContent, SentPart:
		if s.IsHeld() {
			q = s.Unaccepted(q)
		}
		s.send(&q, e == SentPart)
	case SentOnDemand:
		s.OnDemand = names
		s.send(&cache.Query{Since: s.Sent, Scope: cache.OnDemand, Force: s.OnDemand}, false)
	case SentNotes:
		s.send(&cache.Query{Since: s.Acked, Scope: cache.NotesOnly}, false)
	case SentErrors:
		s.nonce++
		s.bytes++
		s.CommitErrors(s.nonce, 1)
	case Skipped, SkippedPart:
		if s.Force == nil && s.Resend == nil { // names are never skipped
			s.SkipTo(&q, s.result(&q, e == SkippedPart))
		}
	case NoNews:
		if s.Due(s.Sent.Gen) == NothingDue {
			s.NoNews()
		}
	case ACK:
		if _, all := s.ACK(); all {
			s.unaccepted = nil
		}
		s.bytes = s.Bytes
	case NACK:
		s.NACK()
		s.bytes = s.Bytes
	case LateNACK:
		if s.Nonce > 0 {
			s.LateNACK(s.Nonce - 1)
		}
	case AckTimeout:
		s.AckTimeout()
	case Forgotten:
		s.Forgotten()
	case Unsubscribe:
		s.Edit(&cache.Edited{Removed: []string{name}}, false)
		s.unaccepted = s.unaccepted.Without([]string{name})
	case TableSwitched:
		s.Switch()
		s.unaccepted = nil
	}
}

func (s *script) send(q *cache.Query, more bool) {
	s.nonce++
	s.bytes++
	if q.Scope != cache.NotesOnly {
		s.unaccepted = s.unaccepted.With(q.Force)
	}
	s.Commit(q, s.result(q, more), s.nonce, 1)
}

// wrong returns what contradicts itself; empty if nothing does.
func (s *script) wrong() string {
	switch {
	case s.Acked.Gen > s.Sent.Gen && !s.IsHeld():
		// A held type may have to be asked about from before the last accepted position on: skips over
		// what the client cannot see count as accepted, even while an older NACK is on its way.
		return "more is accepted than was sent"
	case s.Bytes != s.bytes || s.Phase <= Idle && s.Bytes != 0:
		return "the bytes of unanswered responses are " + strconv.Itoa(s.Bytes)
	case s.Has(Crossed) && !s.Unanswered():
		return "a crossing without an unanswered response"
	case s.Nonce != s.nonce || s.Phase == None && s.Nonce != 0:
		return "the nonce is not that of the newest response"
	case !subset(s.unaccepted, s.ForceUnacked):
		return "names that the client has not accepted are lost"
	case s.taintedAt > s.newest:
		return "something is rejected that was not sent"
	}
	return ""
}

// subset reports whether b has all of a.
func subset(a, b *cache.Names) bool {
	if a == nil {
		return true
	}
	for _, n := range a.List {
		if !b.Has(n) {
			return false
		}
	}
	return true
}

// TestRandomEvents holds B9, B14 and B16 over random sequences of events: positions never contradict
// each other, no name that the client has not accepted is lost, and a type that becomes held is sent
// again from the rejected generation on.
func TestRandomEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScript()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				s.gen++
			case 1:
				s.Force = s.Force.With(cache.NewNames([]string{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}))
			case 2:
				s.Edit(&cache.Edited{Wildcard: true}, rapid.Bool().Draw(t, "again"))
			default:
				before := s.State
				e := Event(rapid.IntRange(0, int(events)-1).Draw(t, "event"))
				s.cause(e, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"))
				if s.IsHeld() && !before.IsHeld() && s.Sent.Gen > s.taintedAt {
					t.Fatalf("%v while %v: held, and what was rejected counts as sent", e, before)
				}
			}
			if wrong := s.wrong(); wrong != "" {
				t.Fatal(wrong)
			}
		}
	})
}
