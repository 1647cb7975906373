package store

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"xdsrelay/relay/events"
)

// noAuth is the answer of a Redis that asks for a password.
type noAuth struct{}

func (noAuth) Error() string { return "NOAUTH Authentication required." }
func (noAuth) RedisError()   {}

// TestDeniedLater: if Redis did not answer at first, for instance because it was starting, and then
// gives an answer that only an operator can fix, the log has the problem, and has it once.
func TestDeniedLater(t *testing.T) {
	var log strings.Builder
	b := newBreaker(slog.New(slog.NewTextHandler(&log, nil)), "test")
	for range failures {
		_, _ = b.do("one", func() (any, error) { return nil, errors.New("connection refused") })
	}
	if b.current().Up || !strings.Contains(log.String(), "event="+string(events.RedisLost)) {
		t.Fatalf("not down after %d failures:\n%s", failures, &log)
	}
	for range 3 { // with the calls that try
		b.note("one", noAuth{})
	}
	if n := strings.Count(log.String(), "event="+string(events.RedisDenied)); n != 1 || strings.Count(log.String(), lacksPassword) != 1 {
		t.Errorf("%d lines say that Redis rejects the node, want one:\n%s", n, &log)
	}
	if s := b.current(); s.Problem != lacksPassword || s.Hint != setPassword {
		t.Errorf("the state is %+v", s)
	}
}
