package ops

import (
	"slices"
	"strings"
	"sync"
	"time"

	"xdsrelay/shard"
)

// Strays are nodes that are no members any more and never said that they would end.
// Most have crashed, but one that is only cut off from what the members meet by, as
// from Redis, goes on serving its clients. So these are asked like members. One that
// does not answer has ended, as far as anybody can tell: that it has is told for a
// while, and its clients are no longer counted. The zero value knows of none. All
// methods are safe for concurrent use.
type Strays struct {
	mu sync.Mutex
	// Guarded by mu.
	members []shard.Member // as they were looked at last
	all     []*stray       // the oldest first
}

// stray is a node that may be there.
type stray struct {
	member   shard.Member
	heard    time.Time // when it answered, or was a member, last
	failed   time.Time // when it did not answer, since then; zero for never
	why      string    // it did not
	answered bool      // since it is no member
}

const (
	// strayPause is for how long one is left alone that did not answer: it may cost
	// whoever asks the time of a whole question.
	strayPause = 10 * time.Second
	// strayTime is after how long without an answer one is given up.
	strayTime = 10 * time.Minute
	// mostStrays bounds those that are remembered.
	mostStrays = 64
)

// Look takes in who the members are now, and returns those beside them that are to be
// asked. left reports which said that they would end: those are no strays.
func (s *Strays) Look(members []shard.Member, left func(shard.Member) bool, now time.Time) (due []shard.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if !m.Draining && !left(m) && !named(members, m.Name) {
			s.all = append(s.all, &stray{member: m, heard: now})
		}
	}
	s.members = members
	s.all = slices.DeleteFunc(s.all, func(one *stray) bool { return named(members, one.member.Name) || left(one.member) })
	s.all = s.all[max(0, len(s.all)-mostStrays):]
	for _, one := range s.all {
		if one.failed.IsZero() || now.Sub(one.failed) >= strayPause {
			due = append(due, one.member)
		}
	}
	return due
}

// Note says that a node has answered, or with an error why it has not; of members that
// means nothing.
func (s *Strays) Note(node string, failure error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(one *stray) bool { return one.member.Name == node })
	if i < 0 {
		return
	}
	one := s.all[i]
	if one.answered = failure == nil; one.answered {
		one.heard, one.failed = now, time.Time{}
		return
	}
	one.why = InShort(failure)
	if one.failed = now; now.Sub(one.heard) > strayTime {
		s.all = slices.Delete(s.all, i, i+1)
	}
}

// Alive are those that answered when they were asked last, by name.
func (s *Strays) Alive() (alive []shard.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.answered {
			alive = append(alive, one.member)
		}
	}
	slices.SortFunc(alive, func(a, b shard.Member) int { return strings.Compare(a.Name, b.Name) })
	return alive
}

// Missing is a node that does not answer and should: since the configuration names it, or
// since it disappeared without draining.
type Missing struct {
	shard.Member

	// Listed says that the configuration names it.
	Listed bool `json:"listed"`
	// Heard is when it was last known to be there, Error why it does not answer.
	Heard time.Time `json:"last_seen"`
	Error string    `json:"error"`
}

// Gone are those that did not answer when they were asked last, by name.
func (s *Strays) Gone() (gone []Missing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if !one.answered && !one.failed.IsZero() {
			gone = append(gone, Missing{Member: one.member, Heard: one.heard, Error: one.why})
		}
	}
	slices.SortFunc(gone, func(a, b Missing) int { return strings.Compare(a.Name, b.Name) })
	return gone
}

func named(members []shard.Member, name string) bool {
	return slices.ContainsFunc(members, func(m shard.Member) bool { return m.Name == name })
}
