package fanout

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Drain refuses new streams and ends the live ones, spread over the given time
// with jitter: gRPC clients reconnect at once when their stream had answered,
// so whoever ends streams must pace it (B42). It returns when no streams are
// left, or with ctx's error, in which case all have been told to end.
func (s *Server) Drain(ctx context.Context, over time.Duration) error {
	s.mu.Lock()
	s.draining.Store(true)
	s.signalEmptyLocked()
	s.mu.Unlock()

	streams := s.leaving()
	rand.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
	// Last those that still wait for an answer: a stream that ends before its
	// first response is a failure to its client (B42).
	slices.SortStableFunc(streams, func(a, b leaver) int { return cmp.Compare(a.unanswered, b.unanswered) })
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, st := range streams {
		// Each stream has its own slice of the time, and ends somewhere in it.
		at := time.Duration((float64(i) + rand.Float64()) / float64(len(streams)) * float64(over))
		timer.Reset(at - time.Since(start))
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-s.empty: // the rest have gone by themselves
			return nil
		}
		st.end(errDraining)
	}
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leaver is a stream that a drain is about to end.
type leaver struct {
	*caller
	unanswered int // 1 for a stream that was sent nothing yet
}

// leaving returns the streams of every kind that are open now.
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
