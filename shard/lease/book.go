package lease

import (
	"time"

	"xdsrelay/shard"
)

// book is who is there. It forgets a member that has left, or whose lease ran out
// while Redis could be asked; not one that Redis has forgotten, or that had no Redis
// to tell, until it had the time to say that it is there. It is not safe for
// concurrent use.
type book struct {
	lease time.Duration
	asked time.Time // when Redis last answered
	lost  bool      // it has failed to since
	known map[string]entry
}

type entry struct {
	member shard.Member
	until  time.Time // when the lease ends, by this node's clock
}

// failed notes that Redis did not answer.
func (b *book) failed() { b.lost = true }

// read takes in an answer of Redis and returns which members came, which left on
// purpose, and whose leases ended.
func (b *book) read(now time.Time, all []found) (came, left, ended []shard.Member) {
	// With or without this node, others may not have reached Redis, either.
	grace := b.lost || now.Sub(b.asked) > b.lease/2
	b.asked, b.lost = now, false
	for name, e := range b.known {
		if grace {
			e.until = now.Add(b.lease)
			b.known[name] = e
		}
	}
	for _, f := range all {
		name := f.member.Name
		if f.left {
			if e, ok := b.known[name]; ok && e.member.Incarnation == f.member.Incarnation {
				left = append(left, e.member)
				delete(b.known, name)
			}
			continue
		}
		e, ok := b.known[name]
		if !ok || e.member.Incarnation != f.member.Incarnation {
			came = append(came, f.member)
		}
		until := now.Add(min(f.lease, b.lease))
		if ok && grace && until.Before(e.until) {
			until = e.until
		}
		b.known[name] = entry{f.member, until}
	}
	for name, e := range b.known {
		if !now.Before(e.until) {
			ended = append(ended, e.member)
			delete(b.known, name)
		}
	}
	return came, left, ended
}

// next is when the first lease ends, if none is renewed. The zero time means never: so
// it is while Redis does not answer, when none ends.
func (b *book) next() (first time.Time) {
	if b.lost {
		return first
	}
	for _, e := range b.known {
		if first.IsZero() || e.until.Before(first) {
			first = e.until
		}
	}
	return first
}

// members are all in the book.
func (b *book) members() []shard.Member {
	all := make([]shard.Member, 0, len(b.known)+1)
	for _, e := range b.known {
		all = append(all, e.member)
	}
	return all
}
