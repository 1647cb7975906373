package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/events"
	"xdsrelay/relay/redact"
)

// journal logs the events of one address, for all keys together: each change of state, and
// reminders while it is down, at growing intervals. It writes at most 19 lines in any minute.
type journal struct {
	// Fixed after construction.
	log  *slog.Logger
	what string // kind of server at the address

	mu sync.Mutex
	// Guarded by mu.
	streams          int // streams that are up
	outage           outage
	since            time.Time // when the outage began
	failures         int       // of all keys, since then
	last             error     // the newest of them
	remind           time.Time // when to log again that it is down
	interval         time.Duration
	reach            reach
	reported         reported
	backUp           chan struct{} // closed by the end of the outage and by wakeWaiting; nil while nothing waits for that
	noLoad           bool          // the server supports no load reports
	quarantinedTypes map[quarantinedType]struct{}
	state            ration   // of lines about the state
	partial          ration   // of lines about single streams and responses
	lines            []func() // to be written when mu is unlocked
}

// outage is whether a server can be used.
type outage uint8

const (
	// noOutage: a stream is up, or nothing has failed yet.
	noOutage outage = iota
	// noStream: no stream is up, and an attempt failed. All attempts to connect succeeded.
	noStream
	// noConnection: no stream is up, and an attempt to connect failed.
	noConnection
)

// reported is the state of a control plane that the last event about it has.
type reported string

const (
	reportedBack reported = ""
	reportedLost reported = "lost"
)

const (
	firstReminder = 10 * time.Second
	lastReminder  = 5 * time.Minute
)

func newJournal(log *slog.Logger, what string) *journal {
	return &journal{log: log, what: what, state: newRation(6), partial: newRation(1)}
}

// connected records that a stream is up.
func (j *journal) connected() {
	j.mu.Lock()
	defer j.unlock()
	j.streams++
	switch {
	case j.outage != noOutage:
		j.wakeWaitingLocked()
		j.logChangeLocked(reportedBack, slog.LevelInfo, j.what+" is back",
			slog.Duration("down_for", time.Since(j.since).Round(time.Millisecond)), slog.Int("failures", j.failures))
	case j.streams == 1:
		j.logChangeLocked(reportedBack, slog.LevelInfo, "connected to the "+j.what)
	}
	j.outage = noOutage
}

// back returns a channel that is closed when a stream is up after none was, and by wakeWaiting.
func (j *journal) back() <-chan struct{} {
	j.mu.Lock()
	defer j.unlock()
	if j.backUp == nil {
		j.backUp = make(chan struct{})
	}
	return j.backUp
}

// disconnected records that a stream that was up has ended.
func (j *journal) disconnected() {
	j.mu.Lock()
	defer j.unlock()
	j.streams--
}

// failed records that a stream ended, or, unless opened, that it could not be opened for lack of a
// connection. keys is how many keys want one.
func (j *journal) failed(err error, opened bool, keys int64) {
	j.mu.Lock()
	defer j.unlock()
	now := time.Now()
	j.last = err
	if j.streams > 0 {
		// Either this is the first of many streams that are about to fail, or the server refuses
		// one stream while it serves others. These must not use up the ration for changes of state. A
		// server that is lost has an event of its own.
		var event []slog.Attr
		if status.Code(err) != codes.Unavailable && !errors.Is(err, io.EOF) {
			event = j.event(events.StreamFailed)
		}
		j.logSingleLocked(slog.LevelWarn, "a stream to the "+j.what+" failed, others are up",
			append(event, slog.Int("up", j.streams), slog.Int64("keys", keys), errorAttr(err))...)
		return
	}
	began, was := j.outage == noOutage, j.outage
	switch {
	case !opened:
		j.outage = noConnection
	case began:
		j.outage = noStream
	}
	if began {
		j.since, j.failures = now, 1
		j.interval = firstReminder
		j.remind = now.Add(j.interval)
		j.logChangeLocked(reportedLost, slog.LevelWarn, "no stream to the "+j.what+", retrying with backoff",
			slog.Int64("keys", keys), errorAttr(err))
		return
	}
	j.failures++
	if j.outage != was {
		j.logLocked(slog.LevelWarn, "cannot connect to the "+j.what+", retrying with backoff",
			slog.Int64("keys", keys), errorAttr(err))
		return
	}
	if now.Before(j.remind) {
		return
	}
	j.interval = min(2*j.interval, lastReminder)
	j.remind = now.Add(j.interval)
	j.logLocked(slog.LevelWarn, "still no stream to the "+j.what+", retrying with backoff",
		slog.Duration("down_for", now.Sub(j.since).Round(time.Second)), slog.Int("failures", j.failures),
		slog.Int64("keys", keys), errorAttr(err))
}

// pingsReduced logs that the server has closed a connection because of too many keepalive pings,
// and the new interval between pings.
func (j *journal) pingsReduced(was, now time.Duration) {
	j.mu.Lock()
	defer j.unlock()
	every := now.String()
	if now <= 0 {
		every = "off"
	}
	j.logLocked(slog.LevelWarn, "the "+j.what+" closed a connection because of too many keepalive pings; pinging less often",
		slog.String("keepalive_was", was.String()), slog.String("keepalive", every))
}

// requestsReduced logs that requests are divided into smaller ones from now on.
func (j *journal) requestsReduced(was, now int) {
	j.mu.Lock()
	defer j.unlock()
	j.logLocked(slog.LevelWarn, "the "+j.what+" may have rejected a large request; splitting requests",
		slog.Int("bytes", was), slog.Int("limit", now))
}

// shed logs that a key stops requesting names.
func (j *journal) shed(key, typeURL string, names int) {
	j.mu.Lock()
	defer j.unlock()
	j.logSingleLocked(slog.LevelWarn, "the "+j.what+" rejects a request with all subscribed names of a key; unsubscribing from the newest unanswered names",
		slog.String("key", shorten(key, 512)), slog.String("type", shorten(typeURL, 512)), slog.Int("names", names))
}

// problem describes the present problem with the address; "" if none is known.
func (j *journal) problem() string {
	j.mu.Lock()
	outage, since, last := j.outage, j.since, j.last
	connection := j.reach
	j.mu.Unlock()
	if outage == noOutage {
		return connection.problem()
	}
	text := "no stream since " + since.UTC().Format(time.RFC3339)
	if last != nil {
		text += ": " + redact.Short(last.Error(), 512)
	}
	return text
}

// nacked logs that a response was NACKed.
func (j *journal) nacked(typeURL, why string) {
	j.mu.Lock()
	defer j.unlock()
	j.logSingleLocked(slog.LevelWarn, "NACKed a response of the "+j.what,
		append(j.event(events.ResponseRejected), slog.String("type", typeURL), slog.String("error", shorten(why, 512)))...)
}

// reportedRejection logs a report about a response that was acknowledged.
func (j *journal) reportedRejection(typeURL, why string) {
	j.mu.Lock()
	defer j.unlock()
	j.logSingleLocked(slog.LevelWarn, "reported to the "+j.what+" that canaries rejected what it sent",
		slog.String("type", typeURL), slog.String("error", shorten(why, 512)))
}

// event makes an event of a line, unless it is about another node.
func (j *journal) event(kind events.Kind) []slog.Attr {
	if j.what != whatControlPlane {
		return nil
	}
	return []slog.Attr{slog.Any(events.Key, kind)}
}

func errorAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("error", shorten(err.Error(), 512))
}

// logLocked writes a line about the state when j.mu is unlocked. j.mu must be held.
func (j *journal) logLocked(level slog.Level, msg string, attrs ...slog.Attr) {
	j.writeLocked(&j.state, level, msg, attrs)
}

// logChangeLocked is logLocked for a line that is an event if the control plane is in another state
// than the last event reported.
func (j *journal) logChangeLocked(to reported, level slog.Level, msg string, attrs ...slog.Attr) {
	if j.what == whatControlPlane && to != j.reported {
		kind := events.ControlPlaneBack
		if to == reportedLost {
			kind = events.ControlPlaneLost
		}
		attrs = append(attrs, slog.Any(events.Key, kind))
	}
	if j.writeLocked(&j.state, level, msg, attrs) {
		j.reported = to
	}
}

// logSingleLocked is logLocked for a line about a single stream or response.
func (j *journal) logSingleLocked(level slog.Level, msg string, attrs ...slog.Attr) {
	j.writeLocked(&j.partial, level, msg, attrs)
}

// writeLocked writes a line when j.mu is unlocked, and reports whether the ration allows that. j.mu
// must be held.
func (j *journal) writeLocked(r *ration, level slog.Level, msg string, attrs []slog.Attr) bool {
	ok, skipped := r.take(time.Now())
	if !ok {
		return false
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Int("lines_left_out", skipped))
	}
	j.lines = append(j.lines, j.line(level, msg, attrs))
	return true
}

// line returns a function that writes a line.
func (j *journal) line(level slog.Level, msg string, attrs []slog.Attr) func() {
	return func() {
		j.log.LogAttrs(context.Background(), level, msg, attrs...) //nolint:sloglint // each caller has a constant text
	}
}

// unlock unlocks j.mu and then writes the pending lines: all keys wait for the lock.
func (j *journal) unlock() {
	due := j.lines
	j.lines = nil
	j.mu.Unlock()
	for _, write := range due {
		write()
	}
}

const rationEvery = 10 * time.Second

// ration bounds a rate: it starts with a number of tokens and gains one each rationEvery.
type ration struct {
	most    int
	tokens  int
	filled  time.Time // when the last token was added
	skipped int
}

func newRation(most int) ration { return ration{most: most, tokens: most, filled: time.Now()} }

// take takes a token and reports whether there was one, and how many calls got none since the last
// token.
func (r *ration) take(now time.Time) (ok bool, skipped int) {
	if n := int(now.Sub(r.filled) / rationEvery); n > 0 {
		r.tokens = min(r.tokens+n, r.most)
		r.filled = r.filled.Add(time.Duration(n) * rationEvery)
	}
	if r.tokens == 0 {
		r.skipped++
		return false, 0
	}
	r.tokens--
	skipped, r.skipped = r.skipped, 0
	return true, skipped
}
