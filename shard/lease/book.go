package lease

import (
	"time"

	"xdsrelay/shard"
)

// book is the known members. It drops a member that has left, or whose lease expired while Redis
// was reachable. A member that is missing in Redis, or that could not reach Redis, stays until it
// has had the time to renew its lease. It is not safe for concurrent use.
type book struct {
	lease time.Duration
	asked time.Time // when Redis last answered
	lost  bool      // it has failed to since
	known map[string]entry
}

type entry struct {
	member shard.Member
	until  time.Time // when the lease ends, by the clock of this node
}

// failed records that Redis did not answer.
func (b *book) failed() { b.lost = true }

// read applies an answer of Redis. It returns the members that joined, that left on purpose, and
// whose leases expired.
func (b *book) read(now time.Time, all []found) (joined, left, ended []shard.Member) {
	// Other nodes may not have reached Redis either, whether or not this node could.
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
			joined = append(joined, f.member)
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
	return joined, left, ended
}

// next returns when the first lease ends, if none is renewed. The zero time means never: no lease
// ends while Redis does not answer.
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

// members returns all known members.
func (b *book) members() []shard.Member {
	all := make([]shard.Member, 0, len(b.known)+1)
	for _, e := range b.known {
		all = append(all, e.member)
	}
	return all
}
