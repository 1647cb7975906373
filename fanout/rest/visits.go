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

// visits are the polls of one client for the same of one type, and what they say of
// how it stands. A client acknowledges by coming back with the version that it was
// told. One that comes back without it rejects it, or did not get it: most say no more,
// so only who sends error_detail counts as rejecting.
type visits struct {
	// Fixed after construction.
	of       *visitor
	what     what
	typ      *resource.Type
	began    time.Time
	mark     string        // see markOf
	all, own *list.Element // in the lists of the roster and of the client

	// Guarded by the roster's mu.
	wildcard bool
	names    string // that are asked for
	asked    int    // how many
	bytes    int64
	open     int           // polls that are being answered
	polled   time.Time     // when one came or was answered last
	pause    time.Duration // between them: the longest of late

	has    string    // the version that the client says it has
	told   string    // that it was told last; empty for none
	toldAt time.Time // for the first time
	vain   uint32    // further times, in a row
	acks   uint32
	nacks  uint32
	nack   *fanout.Nack // since which nothing was acknowledged

	// Of the last answer: what there was, in which table, and which generations of that
	// the client was told and has.
	table       weak.Pointer[cache.Table]
	newest      string
	resources   int
	seen        uint64
	sent, acked uint64
	blind       bool // what it has is of no known generation
	unsure      bool // too little was known to compare

	state fanout.State
	stood time.Time // since when
}

// longestVersion bounds what is kept of a version that a client makes up, in bytes.
// Those that it is told are shorter.
const longestVersion = 100

// paused notes that another poll has come after a while.
func (v *visits) paused(now time.Time) {
	if v.open == 0 {
		v.pause = max(now.Sub(v.polled), v.pause/4*3)
	}
}

// isOver reports whether the client has ceased to poll for this, as far as that can be
// told.
func (v *visits) isOver(least time.Duration, now time.Time) bool {
	return v.open == 0 && now.Sub(v.polled) > max(least, min(pausesShown*v.pause, longestShown))
}

// quotes takes in what a poll says of the one before.
func (v *visits) quotes(q *request, now time.Time) {
	version := q.version
	if len(version) > longestVersion {
		version = strings.ToValidUTF8(version[:longestVersion], "") + "…"
	}
	switch {
	case version != "" && version == v.told:
		if version != v.has {
			v.acks++
		}
		v.acked, v.blind, v.vain, v.nack = v.sent, false, 0, nil
	case version == "":
		v.acked, v.blind = 0, false
	case version != v.has:
		v.acked, v.blind = 0, true
	}
	v.has = version
	if q.why != nil && (version == "" || version != v.told) {
		v.nacks++
		v.nack = fanout.NewNack(now, q.why, v.told)
	}
	v.observe(now)
}

// answered takes in how a poll was answered.
func (v *visits) answered(t *cache.Table, f found, now time.Time) {
	if table := weak.Make(t); table != v.table {
		v.table, v.sent, v.acked, v.blind = table, 0, 0, v.has != ""
	}
	v.newest, v.resources, v.seen, v.unsure = f.seen.Version, f.seen.Resources, f.seen.Gen, f.unsure
	switch {
	case f.told && v.told == f.seen.Version:
		v.vain++
		v.sent = f.seen.Gen
	case f.told:
		v.told, v.toldAt, v.vain, v.sent = f.seen.Version, now, 0, f.seen.Gen
	case v.standing(f.seen) == fanout.Synced:
		v.sent, v.acked, v.blind = f.seen.Gen, f.seen.Gen, false
	}
	v.observe(now)
}

// observe notes since when the client stands as it does.
func (v *visits) observe(now time.Time) {
	if state := v.standing(cache.Seen{Version: v.newest, Resources: v.resources}); state != v.state {
		v.state, v.stood = state, now
	}
}

// standing is how the client stands with what there is.
func (v *visits) standing(now cache.Seen) fanout.State {
	switch {
	case v.has == "" && v.told == "":
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

// compared is how a client stands as of now.
type compared struct {
	visits // a copy of then, owned by who compares

	now   cache.Seen
	there bool // there is a table
	same  bool // the one that the last answer was of
	place fanout.Place
}

// compare looks at what there is now, and with it at each resource if need be: that
// costs as much as names are asked for.
func (v visits) compare(c *cache.Cache, closely bool) compared {
	out := compared{visits: v}
	t := c.Find(v.of.key, v.typ)
	if out.there = t != nil; !out.there {
		if v.state != fanout.NotSent {
			out.state, out.stood = fanout.Unknown, v.polled
		}
		return out
	}
	out.same = weak.Make(t) == v.table
	out.now = cache.Seen{Version: v.newest, Resources: v.resources, Gen: v.seen}
	var sub *cache.Subscription
	if moved := !out.same || t.Reaches(v.seen+1); moved || closely || v.mayMiss() {
		sub, out.now = t.Ask(v.wildcard, v.list())
	}
	if state := v.standing(out.now); state != v.state {
		out.state, out.stood = state, v.polled
		if sub != nil && state == fanout.Stale && out.same && !v.blind {
			for _, l := range sub.Lacks(v.acked) { // the last one is the oldest
				out.stood = l.Changed
			}
		}
	}
	out.place = fanout.Place{
		Type: v.typ, Sub: sub, Sent: v.sent, Acked: v.acked, Version: v.told,
		Rejected: v.nack != nil && v.nack.Version == v.told, Nack: v.nack,
	}
	switch {
	case out.state == fanout.Synced:
		if out.place.Sent, out.place.Acked, out.blind = out.now.Gen, out.now.Gen, false; v.has == out.now.Version {
			out.place.Version = v.has // told by another node, or before
		}
	case !out.same:
		if out.place.Sent, out.place.Acked, out.blind = 0, 0, v.has != ""; v.told == out.now.Version {
			out.place.Sent = out.now.Gen
		}
	}
	return out
}

// mayMiss reports whether one of the names may have no resource, as of the last answer.
func (v *visits) mayMiss() bool {
	return v.asked > 0 && (v.wildcard || v.resources != v.asked || strings.Contains(v.names, "*"))
}

// list are the names that are asked for.
func (v *visits) list() []string {
	if v.asked == 0 {
		return nil
	}
	return strings.Split(v.names, separator)
}
