package table

import (
	"container/heap"
	"time"

	"xdsrelay/relay/cache/list"
)

// TTLState is the extra state of a copy with a TTL. It outlives a TTL that was withdrawn, because
// clients have to be notified of that.
type TTLState struct {
	Entry   *Entry
	TTL     time.Duration // as the control plane gave it last; 0: withdrawn
	Expires time.Time     // counted from then; zero: withdrawn
	at      int           // index in Store.deadlines; -1: none

	// The rest is for the copy that clients see, which is listed in Store.heartbeats. Noted is the
	// note that sends it last. Since the note ChangedAt, clients that support TTLs must be sent the
	// resource itself with it, and not just a heartbeat, because the TTL changed, is the first one,
	// or was withdrawn (F2).
	listed           bool
	Noted, ChangedAt uint64
	heartbeats       list.Link[Entry]
}

// ttlStateSize estimates the memory of the TTL state of a copy, in bytes.
const ttlStateSize = 120

// deadlines are the TTL states that expire, the next one first: a heap.
type deadlines []*TTLState

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].Expires.Before(d[j].Expires) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i, j
}

func (d *deadlines) Push(x any) {
	l := x.(*TTLState)
	l.at = len(*d)
	*d = append(*d, l)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	l := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	l.at = -1
	return l
}

// Deadline is when the next TTL ends, unless it is renewed; zero: none does.
func (s *Store) Deadline() time.Time {
	s.guard.Reading()
	if len(s.deadlines) == 0 {
		return time.Time{}
	}
	return s.deadlines[0].Expires
}

// Expiring is the number of copies whose TTL ends.
func (s *Store) Expiring() int {
	s.guard.Reading()
	return len(s.deadlines)
}

// Due returns a TTL state that ends by now, nil if there is none. It stays due until the copy is
// removed, or its TTL is renewed.
func (s *Store) Due(now time.Time) *TTLState {
	s.guard.Reading()
	if len(s.deadlines) == 0 || s.deadlines[0].Expires.After(now) {
		return nil
	}
	return s.deadlines[0]
}

// TTL is the TTL of e that clients know, 0 if none. e may be nil.
func (e *Entry) TTL() time.Duration {
	if e == nil || e.TTLState == nil {
		return 0
	}
	return e.TTLState.TTL
}

// SetTTL sets the remaining time of a stream's copy of e, from now on; 0 means that it has no end.
// It reports whether there is a new deadline.
func (s *Store) SetTTL(e *Entry, stream int, ttl time.Duration, now time.Time) (ends bool) {
	s.guard.Writing()
	h := e.CopyFrom(stream)
	if h.TTLState == nil && ttl > 0 {
		s.addTTLState(e, h)
	}
	l := h.TTLState
	if l == nil {
		return false
	}
	l.TTL, l.Expires = ttl, time.Time{}
	if ttl <= 0 {
		if l.at >= 0 {
			heap.Remove(&s.deadlines, l.at)
		}
		return false
	}
	l.Expires = now.Add(ttl)
	if l.at < 0 {
		heap.Push(&s.deadlines, l)
	} else {
		heap.Fix(&s.deadlines, l.at)
	}
	return true
}

func (s *Store) addTTLState(e *Entry, h *Copy) {
	h.TTLState = &TTLState{Entry: e, at: -1}
	s.bytes += ttlStateSize
}

// NoteTTL gives the TTL of e, which clients see, a new note. changed says that the resource itself
// is sent with it. It returns the number of the note.
func (s *Store) NoteTTL(e *Entry, changed bool) (note uint64) {
	s.guard.Writing()
	if e.TTLState == nil {
		s.addTTLState(e, &e.Copy) // withdrawn
	}
	l := e.TTLState
	s.unlist(l)
	s.notes++
	l.Noted, l.listed = s.notes, true
	s.heartbeats.Push(e)
	if changed {
		l.ChangedAt = s.notes
	}
	return s.notes
}

// NewestHeartbeat is the entry whose TTL has the newest note, nil if there is none.
func (s *Store) NewestHeartbeat() *Entry {
	s.guard.Reading()
	return s.heartbeats.Newest()
}

// OlderHeartbeat is the entry whose TTL has the note before that of e's; nil if e is the oldest.
func (e *Entry) OlderHeartbeat() *Entry { return e.TTLState.heartbeats.Older }

// unlist removes l, which clients saw, from the list of notes.
func (s *Store) unlist(l *TTLState) {
	if l.listed {
		s.heartbeats.Remove(l.Entry)
		l.listed = false
	}
}

// endTTLState forgets the TTL state of a copy that is being removed.
func (s *Store) endTTLState(l *TTLState) {
	s.unlist(l)
	if l.at >= 0 {
		heap.Remove(&s.deadlines, l.at)
	}
	s.bytes -= ttlStateSize
}
