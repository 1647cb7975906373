package hooks

import "time"

// EndWithin changes how long a sender sends what is queued after its context has ended. It is called before
// Run.
func (s *Sender) EndWithin(d time.Duration) { s.lastSends = d }
