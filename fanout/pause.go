package fanout

import (
	"context"
	"time"
)

// refusalPause is how long a stream that has had an answer stays open after its client
// was refused. Clients of xDS wait before they open a stream again only if the last one
// had no answer (C13 for ours, and grpc-go, C-core and Envoy do the same), so one that asks
// for the same again would otherwise be served and refused thousands of times a second.
const refusalPause = time.Second

// pause keeps a stream that is about to end with err open for a moment, if the client
// would open it again at once. It returns at once if the stream has ended already.
func (c *caller) pause(ctx context.Context, answered bool, err error) {
	if err == nil || !answered || c.reason.Load() != nil {
		return
	}
	timer := time.NewTimer(refusalPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done(): // the client has left, or the node ends
	}
}

// pause is the same for a stream of configuration, which sends nothing meanwhile. Other
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

// pause is the same for a stream of load reports.
func (s *loadStream) pause(err error) {
	s.mu.Lock()
	answered := s.told != nil && s.tier == nil
	s.mu.Unlock()
	s.caller.pause(s.grpc.Context(), answered, err)
}
