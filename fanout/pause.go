package fanout

import (
	"context"
	"time"
)

// refusalPause is how long a stream that had an answer stays open after its client was refused. xDS
// clients pause before they reopen a stream only if the last one had no answer (C13 for ours;
// grpc-go, C-core and Envoy do the same), so a client that repeats its request would otherwise be
// served and refused thousands of times per second.
const refusalPause = time.Second

// pause delays the end of a stream, which is about to end with err, if its client would reopen it
// at once. It returns at once if the stream has ended.
func (c *caller) pause(ctx context.Context, answered bool, err error) {
	if err == nil || !answered || c.reason.Load() != nil {
		return
	}
	timer := time.NewTimer(refusalPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done(): // the client has disconnected, or the node stops
	}
}

// pause is caller.pause for a stream of configuration, which sends nothing during the pause. Other
// nodes of the tier pause by themselves.
func (s *stream) pause(err error) {
	s.mu.Lock()
	answered := s.nonces > 0 && s.tier == nil
	if err != nil && answered {
		s.ended = true
	}
	s.unlock()
	s.caller.pause(s.grpc.Context(), answered, err)
}

// pause is caller.pause for a stream of load reports.
func (s *loadStream) pause(err error) {
	s.mu.Lock()
	answered := s.sentTerms != nil && s.tier == nil
	s.mu.Unlock()
	s.caller.pause(s.grpc.Context(), answered, err)
}
