package upstream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"xdsrelay/relay/redact"
)

// journal logs what happens with one address, for all keys together: each
// change of state, and a sign of life while it is down, at growing intervals.
// Whatever happens, it writes no more than its ration of lines: up to 19 in
// any minute.
type journal struct {
	// Fixed after construction.
	log  *slog.Logger
	what string // that is at the address

	mu sync.Mutex
	// Guarded by mu.
	streams     int       // that are up
	down        bool      // no stream is up, and trying failed
	unconnected bool      // trying to connect failed since it is down
	since       time.Time // when down began
	failures    int       // since then, of all keys
	last        error     // the newest of them
	remind      time.Time // when to say again that it is down
	interval    time.Duration
	reach       reach
	returned    chan struct{} // closed when down ends, and by hurry; nil while nobody waits for that
	noLoad      bool          // the server takes no load reports
	aside       map[setAside]struct{}
	state       ration   // of lines about the state
	partial     ration   // of lines about single streams and responses
	lines       []func() // to be written when mu is unlocked
}

const (
	firstReminder = 10 * time.Second
	lastReminder  = 5 * time.Minute
)

func newJournal(log *slog.Logger, what string) *journal {
	return &journal{log: log, what: what, state: newRation(6), partial: newRation(1)}
}

// connected notes that a stream is up.
func (j *journal) connected() {
	j.mu.Lock()
	defer j.unlock()
	j.streams++
	switch {
	case j.down:
		j.hurryLocked()
		j.sayLocked(slog.LevelInfo, j.what+" is back",
			slog.Duration("down_for", time.Since(j.since).Round(time.Millisecond)), slog.Int("failures", j.failures))
	case j.streams == 1:
		j.sayLocked(slog.LevelInfo, "connected to the "+j.what)
	}
	j.down = false
}

// back is closed when the next stream is up after none was, and by hurry.
func (j *journal) back() <-chan struct{} {
	j.mu.Lock()
	defer j.unlock()
	if j.returned == nil {
		j.returned = make(chan struct{})
	}
	return j.returned
}

// disconnected notes that a stream that was up is over.
func (j *journal) disconnected() {
	j.mu.Lock()
	defer j.unlock()
	j.streams--
}

// failed notes that a stream ended, or could not be opened, which means that
// there is no connection; keys is how many keys want one.
func (j *journal) failed(err error, opened bool, keys int64) {
	j.mu.Lock()
	defer j.unlock()
	now := time.Now()
	j.last = err
	if j.streams > 0 {
		// Either the first of many that are about to fail, or one that the
		// server refuses while it serves others. These must not use up what
		// is meant for changes of state.
		j.saySingleLocked(slog.LevelWarn, "a stream to the "+j.what+" failed, others are up",
			slog.Int("up", j.streams), slog.Int64("keys", keys), errorAttr(err))
		return
	}
	if !j.down {
		j.down, j.since, j.failures, j.unconnected = true, now, 1, !opened
		j.interval = firstReminder
		j.remind = now.Add(j.interval)
		j.sayLocked(slog.LevelWarn, "no stream to the "+j.what+", retrying with backoff",
			slog.Int64("keys", keys), errorAttr(err))
		return
	}
	j.failures++
	if !opened && !j.unconnected {
		j.unconnected = true
		j.sayLocked(slog.LevelWarn, "cannot connect to the "+j.what+", retrying with backoff",
			slog.Int64("keys", keys), errorAttr(err))
		return
	}
	if now.Before(j.remind) {
		return
	}
	j.interval = min(2*j.interval, lastReminder)
	j.remind = now.Add(j.interval)
	j.sayLocked(slog.LevelWarn, "still no stream to the "+j.what+", retrying with backoff",
		slog.Duration("down_for", now.Sub(j.since).Round(time.Second)), slog.Int("failures", j.failures),
		slog.Int64("keys", keys), errorAttr(err))
}

// calmed notes that the server has ended a connection for too many keepalive pings,
// and how often it is pinged from now on.
func (j *journal) calmed(was, now time.Duration) {
	j.mu.Lock()
	defer j.unlock()
	every := now.String()
	if now <= 0 {
		every = "off"
	}
	j.sayLocked(slog.LevelWarn, "the "+j.what+" ended a connection because of too many keepalive pings, pinging less often from now on",
		slog.String("keepalive_was", was.String()), slog.String("keepalive", every))
}

// smaller notes that requests are kept smaller from now on.
func (j *journal) smaller(was, now int) {
	j.mu.Lock()
	defer j.unlock()
	j.sayLocked(slog.LevelWarn, "the "+j.what+" may not have accepted a large request, dividing requests into smaller ones from now on",
		slog.Int("bytes", was), slog.Int("limit", now))
}

// shed notes that a key stops asking for names.
func (j *journal) shed(key, typeURL string, names int) {
	j.mu.Lock()
	defer j.unlock()
	j.saySingleLocked(slog.LevelWarn, "the "+j.what+" does not accept a request with all names of a key, not asking for the newest ones that were never answered",
		slog.String("key", shorten(key, 512)), slog.String("type", shorten(typeURL, 512)), slog.Int("names", names))
}

// problem says what is wrong with the address now; "" where nothing is known to be.
func (j *journal) problem() string {
	j.mu.Lock()
	down, since, last := j.down, j.since, j.last
	connection := j.reach
	j.mu.Unlock()
	if !down {
		return connection.problem()
	}
	text := "no stream since " + since.UTC().Format(time.RFC3339)
	if last != nil {
		text += ": " + redact.Short(last.Error(), 512)
	}
	return text
}

// refused notes that a response was NACKed.
func (j *journal) refused(typeURL, why string) {
	j.mu.Lock()
	defer j.unlock()
	j.saySingleLocked(slog.LevelWarn, "NACKed a response of the "+j.what,
		slog.String("type", typeURL), slog.String("error", shorten(why, 512)))
}

func errorAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("error", shorten(err.Error(), 512))
}

// sayLocked writes a line about the state when j.mu is unlocked. j.mu must be held.
func (j *journal) sayLocked(level slog.Level, msg string, attrs ...slog.Attr) {
	j.writeLocked(&j.state, level, msg, attrs)
}

// saySingleLocked is sayLocked for a line about a single stream or response.
func (j *journal) saySingleLocked(level slog.Level, msg string, attrs ...slog.Attr) {
	j.writeLocked(&j.partial, level, msg, attrs)
}

func (j *journal) writeLocked(r *ration, level slog.Level, msg string, attrs []slog.Attr) {
	ok, skipped := r.take(time.Now())
	if !ok {
		return
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Int("lines_left_out", skipped))
	}
	j.lines = append(j.lines, j.line(level, msg, attrs))
}

// line writes a line when it is called.
func (j *journal) line(level slog.Level, msg string, attrs []slog.Attr) func() {
	return func() {
		j.log.LogAttrs(context.Background(), level, msg, attrs...) //nolint:sloglint // each caller has a constant text
	}
}

// unlock unlocks j.mu and writes the lines that are due: all keys wait for the lock.
func (j *journal) unlock() {
	due := j.lines
	j.lines = nil
	j.mu.Unlock()
	for _, write := range due {
		write()
	}
}

const rationEvery = 10 * time.Second

// ration hands out a number of tokens at first, and one more each rationEvery.
type ration struct {
	most    int
	tokens  int
	filled  time.Time // when the last token was added
	skipped int
}

func newRation(most int) ration { return ration{most: most, tokens: most, filled: time.Now()} }

// take reports whether there is a token, and how many were refused before it.
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
