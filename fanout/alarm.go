package fanout

import "time"

// armLocked makes sure that the stream is looked at again when at has come.
func (s *stream) armLocked(at time.Time) {
	moment := s.srv.stamp(at)
	switch {
	case s.ended || s.alarmAt != 0 && s.alarmAt <= moment:
		return
	case s.alarm == nil:
		s.alarm = time.AfterFunc(time.Until(at), s.wake)
	default:
		s.alarm.Reset(time.Until(at))
	}
	s.alarmAt = moment
}

// disarmLocked forgets the alarm. A timer takes 150 bytes: none is kept that
// nobody waits for.
func (s *stream) disarmLocked() {
	if s.alarm != nil {
		s.alarm.Stop()
	}
	s.alarm, s.alarmAt = nil, 0
}

// wake is what happens at the alarm.
func (s *stream) wake() {
	s.mu.Lock()
	defer s.unlock()
	s.alarm, s.alarmAt = nil, 0
	if s.group == nil {
		s.call.End(errNoRequest)
		return
	}
	s.flushLocked()
}

// awaitFirst bounds the wait for the first request.
func (s *stream) awaitFirst() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armLocked(time.Now().Add(s.srv.cfg.FirstRequestTimeout))
}
