package drive

import (
	"context"
	"fmt"
	"time"
)

// MinInterval bounds schedules: what is due more often comes in bursts anyway.
const MinInterval = 100 * time.Microsecond

// Start starts a schedule. The first change is due after the interval.
func (d *Driver) Start(s Schedule) (Planned, error) {
	if s.Interval < MinInterval {
		return Planned{}, fmt.Errorf("schedule: got an interval of %v, expected at least %v", s.Interval, MinInterval)
	}
	if s.Count < 0 {
		return Planned{}, fmt.Errorf("schedule: got a count of %d, expected 0 or more", s.Count)
	}
	if err := s.Validate(d.server.Spec()); err != nil {
		return Planned{}, err
	}
	// No other change may come between, so that the revisions are known.
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.schedule != nil:
		return Planned{}, errScheduled
	case d.life.Err() != nil:
		return Planned{}, context.Cause(d.life)
	}
	ctx, cancel := context.WithCancel(d.life)
	d.schedule, d.late, d.failed = cancel, 0, nil
	start := time.Now()
	var plan Planned
	plan.First = Changed{Revision: d.last.Revision + 1, At: s.due(start, 0)}
	if s.Count > 0 {
		plan.Last = Changed{Revision: d.last.Revision + uint64(s.Count), At: s.due(start, s.Count-1)}
	}
	d.work.Go(func() { d.run(ctx, s, start) })
	return plan, nil
}

// due is when change i of a schedule is intended.
func (s *Schedule) due(start time.Time, i int) time.Time {
	return start.Add(time.Duration(i+1) * s.Interval)
}

// run makes the changes of a schedule, each when it is due or as soon after as
// it can be.
func (d *Driver) run(ctx context.Context, s Schedule, start time.Time) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var err error
	for i := 0; err == nil && (s.Count == 0 || i < s.Count); i++ {
		at := s.due(start, i)
		timer.Reset(time.Until(at))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		d.changing.Lock()
		if ctx.Err() != nil { // nothing changes once Stop has returned
			d.changing.Unlock()
			break
		}
		_, err = d.change(s.Change, at)
		d.changing.Unlock()
		d.mu.Lock()
		d.late = max(d.late, time.Since(at))
		d.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() == nil { // otherwise Stop has done it, and another may run
		d.schedule()
		d.schedule, d.failed = nil, err
	}
}

// Stop ends the schedule, if one runs, and returns the last change. There are
// no changes of it any more when it returns.
func (d *Driver) Stop() Changed {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.schedule != nil {
		d.schedule()
		d.schedule = nil
	}
	return d.last
}
