package rest

import (
	"container/list"
	"strings"
	"time"
	"weak"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// pollState is the state of one client for one subject. A client acknowledges a version by quoting
// it in the next poll. A client that does not quote it has rejected or not received it; only a
// client that sends error_detail counts as rejecting.
type pollState struct {
	// Fixed after construction.
	of       *pollClient
	subject  subject
	typ      *resource.Type
	began    time.Time
	mark     string        // see markOf
	all, own *list.Element // elements of the lists of the registry and of the client

	// Guarded by the registry's mu.
	wildcard bool
	names    string // in the last poll
	asked    int    // number of names
	bytes    int64
	open     int           // polls in progress
	polled   time.Time     // when the last poll arrived or was answered
	pause    time.Duration // recent maximum time between polls

	has            string    // version that the client says it has
	sentVersion    string    // version of the last answer; empty for none
	sentAt         time.Time // the first time
	unackedRepeats uint32    // consecutive further times
	acks           uint32
	nacks          uint32
	nack           *fanout.Nack // nothing was acknowledged since

	// Of the last answer: the content, its table, and which generations of that the client was sent
	// and has.
	table           weak.Pointer[cache.Table]
	newest          string
	resources       int
	seen            uint64
	sent, acked     uint64
	positionUnknown bool // the client has content of no known generation
	unsure          bool // too little was known to compare

	state fanout.State
	since time.Time // of state
}

// longestVersion bounds what is kept of a version that a client quotes, in bytes. The versions of
// answers are shorter.
const longestVersion = 100

// recordPause records the time between two polls.
func (v *pollState) recordPause(now time.Time) {
	if v.open == 0 {
		v.pause = max(now.Sub(v.polled), v.pause/4*3)
	}
}

// expired reports whether the client has presumably stopped polling for this subject.
func (v *pollState) expired(least time.Duration, now time.Time) bool {
	return v.open == 0 && now.Sub(v.polled) > max(least, min(pausesShown*v.pause, longestShown))
}

// recordRequest records what a poll says about the answer before.
func (v *pollState) recordRequest(q *request, now time.Time) {
	version := q.version
	if len(version) > longestVersion {
		version = strings.ToValidUTF8(version[:longestVersion], "") + "…"
	}
	switch {
	case version != "" && version == v.sentVersion:
		if version != v.has {
			v.acks++
		}
		v.acked, v.positionUnknown, v.unackedRepeats, v.nack = v.sent, false, 0, nil
	case version == "":
		v.acked, v.positionUnknown = 0, false
	case version != v.has:
		v.acked, v.positionUnknown = 0, true
	}
	v.has = version
	if q.why != nil && (version == "" || version != v.sentVersion) {
		v.nacks++
		v.nack = fanout.NewNack(now, q.why, v.sentVersion)
	}
	v.updateState(now)
}

// recordAnswer records how a poll was answered.
func (v *pollState) recordAnswer(t *cache.Table, f found, now time.Time) {
	if table := weak.Make(t); table != v.table {
		v.table, v.sent, v.acked, v.positionUnknown = table, 0, 0, v.has != ""
	}
	v.newest, v.resources, v.seen, v.unsure = f.seen.Version, f.seen.Resources, f.seen.Gen, f.unsure
	switch {
	case f.sent && v.sentVersion == f.seen.Version:
		v.unackedRepeats++
		v.sent = f.seen.Gen
	case f.sent:
		v.sentVersion, v.sentAt, v.unackedRepeats, v.sent = f.seen.Version, now, 0, f.seen.Gen
	case v.syncState(f.seen) == fanout.Synced:
		v.sent, v.acked, v.positionUnknown = f.seen.Gen, f.seen.Gen, false
	}
	v.updateState(now)
}

// updateState records a change of the client's state.
func (v *pollState) updateState(now time.Time) {
	if state := v.syncState(cache.Seen{Version: v.newest, Resources: v.resources}); state != v.state {
		v.state, v.since = state, now
	}
}

// syncState returns the state of the client compared with the content now.
func (v *pollState) syncState(now cache.Seen) fanout.State {
	switch {
	case v.has == "" && v.sentVersion == "":
		return fanout.NotSent
	case v.unsure && (now.Resources == 0 || v.has != now.Version):
		return fanout.Unknown
	case v.has == now.Version, v.has != "" && !v.typ.FullState && now.Resources == 0: // B32
		return fanout.Synced
	case v.nack != nil && v.nack.Version == now.Version:
		return fanout.Nacked
	}
	return fanout.Stale
}

// compared is the state of a client compared with the current content.
type compared struct {
	pollState // a copy, owned by the caller of compare

	now   cache.Seen
	there bool // the table exists
	same  bool // it is the table of the last answer
	place fanout.Place
}

// compare compares the client with the current content and, if closely or if needed, resource by
// resource. That costs time proportional to the number of names.
func (v pollState) compare(c *cache.Cache, closely bool) compared {
	out := compared{pollState: v}
	t := c.Find(v.of.key, v.typ)
	if out.there = t != nil; !out.there {
		if v.state != fanout.NotSent {
			out.state, out.since = fanout.Unknown, v.polled
		}
		return out
	}
	out.same = weak.Make(t) == v.table
	out.now = cache.Seen{Version: v.newest, Resources: v.resources, Gen: v.seen}
	var sub *cache.Subscription
	if moved := !out.same || t.Reaches(v.seen+1); moved || closely || v.mayLack() {
		sub, out.now = t.Ask(v.wildcard, v.list())
	}
	if state := v.syncState(out.now); state != v.state {
		out.state, out.since = state, v.polled
		if sub != nil && state == fanout.Stale && out.same && !v.positionUnknown {
			for _, l := range sub.Lacks(v.acked) { // the last one is the oldest
				out.since = l.Changed
			}
		}
	}
	out.place = fanout.Place{
		Type: v.typ, Sub: sub, Sent: v.sent, Acked: v.acked, Version: v.sentVersion,
		Rejected: v.nack != nil && v.nack.Version == v.sentVersion, Nack: v.nack,
	}
	switch {
	case out.state == fanout.Synced:
		if out.place.Sent, out.place.Acked, out.positionUnknown = out.now.Gen, out.now.Gen, false; v.has == out.now.Version {
			out.place.Version = v.has // sent by another node, or before
		}
	case !out.same:
		if out.place.Sent, out.place.Acked, out.positionUnknown = 0, 0, v.has != ""; v.sentVersion == out.now.Version {
			out.place.Sent = out.now.Gen
		}
	}
	return out
}

// mayLack reports whether one of the names may have no resource, by the last answer.
func (v *pollState) mayLack() bool {
	return v.asked > 0 && (v.wildcard || v.resources != v.asked || strings.Contains(v.names, "*"))
}

// list returns the names of the last poll.
func (v *pollState) list() []string {
	if v.asked == 0 {
		return nil
	}
	return strings.Split(v.names, separator)
}
