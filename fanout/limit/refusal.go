package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/rejection"
	"xdsrelay/relay/events"
)

// Refusal is the error for a client over a limit. It is a gRPC status.
type Refusal struct {
	Limit Name
	text  string
	log   func() // writes the log line; nil if none is due
}

// Log writes the log line that [Limiter.RefuseLocked] left. It must not be called under a lock.
func (r *Refusal) Log() {
	if r.log != nil {
		r.log()
		r.log = nil
	}
}

// logged writes the log line of a function that returns a refusal. It is deferred before the lock
// is taken, so it runs after the unlock.
func logged(err *error) {
	if r, is := errors.AsType[*Refusal](*err); is {
		r.Log()
	}
}

// Error returns the text with the limit and its value.
func (r *Refusal) Error() string { return r.text }

// GRPCStatus returns the status for the client.
func (r *Refusal) GRPCStatus() *status.Status { return status.New(codes.ResourceExhausted, r.text) }

// Elsewhere reports whether err refuses a client that another node may accept, since the limit is
// one of this node.
func Elsewhere(err error) bool {
	var r *Refusal
	if !errors.As(err, &r) {
		return false
	}
	switch r.Limit {
	case Streams, NewStreams, Memory:
		return true
	default:
		return false
	}
}

// logPause is the minimum time between two log lines about one limit.
const logPause = time.Minute

// EventPause is the minimum time between two events about the same limit or refusal: the cause may
// last for days, and a node keeps a bounded number of events.
const EventPause = 10 * time.Minute

// refusals counts refusals and logs some of them.
type refusals struct {
	// Fixed after construction.
	rejections *rejection.Counter
	delayed    metric.Int64Counter
	log        *slog.Logger

	lines, events [names]Lines
}

func newRefusals(m metric.Meter, log *slog.Logger) (*refusals, error) {
	r := &refusals{log: log}
	var errs [2]error
	r.rejections, errs[0] = rejection.New(m)
	r.delayed, errs[1] = m.Int64Counter("xdsrelay.downstream.delayed_requests", metric.WithDescription("Client requests delayed because of limits.max_requests_per_second."))
	return r, errors.Join(errs[:]...)
}

// refuse counts and returns the refusal of a client over a limit. have and most are the value and
// the limit, and who identifies the client in the log.
func (r *refusals) refuse(n Name, who string, have, most int, what string) *Refusal {
	e := r.refuseLocked(n, who, have, most, what)
	e.Log()
	return e
}

// refuseLocked is refuse for callers that hold a lock: the log line is left to [Refusal.Log].
func (r *refusals) refuseLocked(n Name, who string, have, most int, what string) *Refusal {
	return r.refuseAtLocked(n.where(), n, who, have, most, what)
}

func (r *refusals) refuseAtLocked(w rejection.Where, n Name, who string, have, most int, what string) *Refusal {
	text := fmt.Sprintf("%d %s: the limit is %d (%s)", have, what, most, about[n].Field)
	return &Refusal{n, text, r.count(w, n, who, text)}
}

// count counts a refusal. It returns a function that writes the log line; nil if none is due.
func (r *refusals) count(w rejection.Where, n Name, who, reason string) func() {
	if n == Requests {
		r.delayed.Add(context.Background(), 1)
	} else {
		r.rejections.Add(w, n.Reason())
	}
	more, due := r.lines[n].Next(time.Now(), logPause)
	if !due {
		return nil
	}
	attrs := []any{"limit", about[n].Label, "peer", who, "reason", reason, "more_since_last", more}
	if n != Requests {
		if _, due := r.events[n].Next(time.Now(), EventPause); due {
			attrs = append(attrs, events.Key, events.ClientsRejected)
		}
	}
	return func() { r.log.Warn("a limit was reached", attrs...) }
}

// Lines limits the rate of repeated log lines. The zero Lines is ready. It is safe for concurrent
// use.
type Lines struct {
	last    atomic.Int64 // when the last line was logged, in ns since 1970
	skipped atomic.Int64 // lines suppressed since then
}

// Next reports whether to write a line now, and how many lines were suppressed since the last one.
func (l *Lines) Next(now time.Time, pause time.Duration) (skipped int64, ok bool) {
	last := l.last.Load()
	if now.UnixNano()-last < int64(pause) || !l.last.CompareAndSwap(last, now.UnixNano()) {
		l.skipped.Add(1)
		return 0, false
	}
	return l.skipped.Swap(0), true
}
