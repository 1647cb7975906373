package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Refusal is the error of who has reached a limit. It is a gRPC status.
type Refusal struct {
	Limit Name
	text  string
	log   func() // writes the line of the log; nil if none is due
}

// Log writes the line of the log that [Limiter.RefuseLocked] left to be written. It must not
// be called under a lock.
func (r *Refusal) Log() {
	if r.log != nil {
		r.log()
		r.log = nil
	}
}

// logged writes the line of the log of a function that ends with a refusal. It is deferred
// before the lock is taken, so that it runs when that is released.
func logged(err *error) {
	if r, is := errors.AsType[*Refusal](*err); is {
		r.Log()
	}
}

// Error says what the limit is.
func (r *Refusal) Error() string { return r.text }

// GRPCStatus is what a client is told.
func (r *Refusal) GRPCStatus() *status.Status { return status.New(codes.ResourceExhausted, r.text) }

// Elsewhere tells whether err refuses a client that another node may take, since it
// is this node that has enough.
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

// logPause is between two log lines about one limit.
const logPause = time.Minute

// refusals counts those who were refused, and logs some of them.
type refusals struct {
	// Fixed after construction.
	counter metric.Int64Counter
	options [names]metric.AddOption
	log     *slog.Logger

	lines [names]Lines
}

func newRefusals(m metric.Meter, log *slog.Logger) (*refusals, error) {
	r := &refusals{log: log}
	var err error
	r.counter, err = m.Int64Counter("xdsrelay.refused", metric.WithDescription("What clients were refused because of a limit, by limit. Requests that were read later, and not refused, are those of the limit requests."))
	for n := range r.options {
		r.options[n] = metric.WithAttributeSet(attribute.NewSet(attribute.String("limit", about[n].Label)))
	}
	return r, err
}

// refuse makes the refusal of who is over a limit, and counts it. have is what there
// is, or would be, and most the limit; who says who it is, for the log.
func (r *refusals) refuse(n Name, who string, have, most int, what string) *Refusal {
	e := r.refuseLocked(n, who, have, most, what)
	e.Log()
	return e
}

// refuseLocked is refuse without the line of the log, which is left to [Refusal.Log].
func (r *refusals) refuseLocked(n Name, who string, have, most int, what string) *Refusal {
	text := fmt.Sprintf("%d %s: the limit is %d (%s)", have, what, most, about[n].Field)
	return &Refusal{n, text, r.count(n, who, text)}
}

// count counts a refusal and returns what writes the line of the log, nil if none is due.
func (r *refusals) count(n Name, who, reason string) func() {
	r.counter.Add(context.Background(), 1, r.options[n])
	more, due := r.lines[n].Next(time.Now(), logPause)
	if !due {
		return nil
	}
	return func() {
		r.log.Warn("a limit was reached", "limit", about[n].Label, "peer", who, "reason", reason, "more_since_last", more)
	}
}

// Lines thins out lines of the log of which there may be many. The zero Lines is
// ready. It is safe for concurrent use.
type Lines struct {
	last    atomic.Int64 // when the last one was logged, in ns since 1970
	skipped atomic.Int64 // since then
}

// Next tells whether a line should be logged now, and if so, how many were not since
// the last one.
func (l *Lines) Next(now time.Time, pause time.Duration) (skipped int64, ok bool) {
	last := l.last.Load()
	if now.UnixNano()-last < int64(pause) || !l.last.CompareAndSwap(last, now.UnixNano()) {
		l.skipped.Add(1)
		return 0, false
	}
	return l.skipped.Swap(0), true
}
