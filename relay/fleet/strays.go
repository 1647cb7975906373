package fleet

import (
	"slices"
	"strings"
	"sync"
	"time"

	"xdsrelay/shard"
)

// Strays are nodes that are no members any more and never said that they would end.
// Most have crashed, but one that is only cut off from what the members meet by, as
// from Redis, goes on serving its clients. So these are asked like members. Of one that
// does not answer nothing is said: it has ended, as far as anybody can tell. The zero
// value knows of none. All methods are safe for concurrent use.
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
// asked.
func (s *Strays) Look(members []shard.Member, now time.Time) (due []shard.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if !m.Draining && !named(members, m.Name) {
			s.all = append(s.all, &stray{member: m, heard: now})
		}
	}
	s.members = members
	s.all = slices.DeleteFunc(s.all, func(one *stray) bool { return named(members, one.member.Name) })
	s.all = s.all[max(0, len(s.all)-mostStrays):]
	for _, one := range s.all {
		if one.failed.IsZero() || now.Sub(one.failed) >= strayPause {
			due = append(due, one.member)
		}
	}
	return due
}

// Note says whether a node has answered; of members that means nothing.
func (s *Strays) Note(node string, answered bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(one *stray) bool { return one.member.Name == node })
	if i < 0 {
		return
	}
	one := s.all[i]
	if one.answered = answered; answered {
		one.heard, one.failed = now, time.Time{}
		return
	}
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

func named(members []shard.Member, name string) bool {
	return slices.ContainsFunc(members, func(m shard.Member) bool { return m.Name == name })
}
