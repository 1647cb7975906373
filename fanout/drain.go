package fanout

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Drain refuses new streams and ends the open ones, spread over the given time with jitter: gRPC
// clients whose stream had an answer reconnect at once, so ending streams must be paced (B42). It
// returns when no streams are left, or with the error of ctx; then all streams have been ended.
func (s *Server) Drain(ctx context.Context, over time.Duration) error {
	s.mu.Lock()
	s.draining.Store(true)
	s.signalEmptyLocked()
	s.mu.Unlock()

	streams := s.leaving()
	rand.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
	// Streams without an answer last: a stream that ends before its first response is a failure to
	// its client (B42).
	slices.SortStableFunc(streams, func(a, b leaver) int { return cmp.Compare(a.unanswered, b.unanswered) })
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, st := range streams {
		// Each stream has its own slice of the time, and ends at a random moment in it.
		at := time.Duration((float64(i) + rand.Float64()) / float64(len(streams)) * float64(over))
		timer.Reset(at - time.Since(start))
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-s.empty: // the rest ended by themselves
			return nil
		}
		st.call.End(errDraining)
	}
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leaver is a stream that a drain ends.
type leaver struct {
	*caller
	unanswered int // 1 for a stream without a response
}

// leaving returns the open streams of all kinds.
func (s *Server) leaving() []leaver {
	streams := s.snapshot()
	s.mu.Lock()
	loads := slices.Collect(maps.Keys(s.loads))
	s.mu.Unlock()
	out := make([]leaver, 0, len(streams)+len(loads))
	for _, st := range streams {
		out = append(out, leaver{&st.caller, st.unanswered()})
	}
	for _, st := range loads {
		out = append(out, leaver{&st.caller, st.unanswered()})
	}
	return out
}

func (s *stream) unanswered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nonces == 0 {
		return 1
	}
	return 0
}
