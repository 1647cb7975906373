package drive

import (
	"time"

	"xdsrelay/bench/content"
)

// The orders. Those without arguments take none, and those without a reply
// reply nothing.
const (
	// OrderChange takes a [content.Change], makes it in all keys, and replies
	// with [Changed]. It is refused while a schedule runs.
	OrderChange = "change"
	// OrderSchedule takes a [Schedule], starts it, and replies with [Planned]. It
	// is refused while another one runs.
	OrderSchedule = "schedule"
	// OrderStop ends the schedule, if one runs, and replies with [Changed]: the
	// last change that was made.
	OrderStop = "stop"
	// OrderStats replies with [Stats].
	OrderStats = "stats"
	// OrderMemory collects garbage, and replies with [Memory].
	OrderMemory = "memory"
	// OrderDown stops listening and cuts all connections.
	OrderDown = "down"
	// OrderUp listens again, at the same address.
	OrderUp = "up"
)

// Memory is what the process of a server has on its heap.
type Memory struct {
	Live      int64 `json:"live"`      // bytes, after a collection
	InUse     int64 `json:"in_use"`    // bytes that the runtime needs for these, for stacks and for itself
	Allocated int64 `json:"allocated"` // objects, since it began
}

// Ready is what a server says first.
type Ready struct {
	Addr string `json:"addr"` // as host:port
}

// Changed says which change was the last.
type Changed struct {
	Revision uint64    `json:"revision"`
	At       time.Time `json:"at"` // when it was intended
}

// Schedule is changes of one kind at equal intervals.
type Schedule struct {
	content.Change
	// Interval is the time from one change to the next, and to the first; in
	// JSON in nanoseconds. Required.
	Interval time.Duration `json:"interval"`
	// Count is the number of changes; 0 means until OrderStop.
	Count int `json:"count,omitempty"`
}

// Planned is what a schedule will do.
type Planned struct {
	First Changed `json:"first"`
	// Last is the last change; zero if there is none.
	Last Changed `json:"last"`
}

// Counts is what went over the streams, in messages and in the bytes of these
// messages, without the framing of gRPC.
type Counts struct {
	Requests  int64 `json:"requests"`
	Responses int64 `json:"responses"`
	Nacks     int64 `json:"nacks"` // among the requests
	BytesIn   int64 `json:"bytes_in"`
	BytesOut  int64 `json:"bytes_out"`
}

// Stats is what a server has done since it began; a time of being away does not
// reset it.
type Stats struct {
	Streams      int64 `json:"streams"`       // open now
	StreamsTotal int64 `json:"streams_total"` // opened ever
	Counts
	// ByType divides the counts by type URL. A floor does not look at requests,
	// so that only its responses are here.
	ByType map[string]Counts `json:"by_type,omitempty"`
	// Rejections are the messages of the first NACKs.
	Rejections []string `json:"rejections,omitempty"`
	// Revision is the last change that was made.
	Revision uint64 `json:"revision"`
	// Scheduled says whether a schedule runs.
	Scheduled bool `json:"scheduled"`
	// Late is how long after its intended time a scheduled change was made, at
	// most; in JSON in nanoseconds.
	Late time.Duration `json:"late"`
	// Error is what ended the last schedule before its time.
	Error string `json:"error,omitempty"`
}
