package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/fleet"
	"xdsrelay/bench/report"
)

// How long a step may take until it has failed.
const (
	syncTimeout   = 3 * time.Minute
	changeTimeout = 2 * time.Minute
)

// runner takes a bed through steps. It is used by one goroutine.
type runner struct {
	bed   *bed
	began time.Time
}

// do does a step. It returns what was measured, nil if the step is not for the
// report.
func (r *runner) do(ctx context.Context, s Step) (*report.Step, error) {
	switch s.Do {
	case Down:
		return nil, r.bed.server.Call(ctx, drive.OrderDown, nil, nil)
	case Up:
		return nil, r.bed.server.Call(ctx, drive.OrderUp, nil, nil)
	case Connect:
		return r.measured(ctx, s, report.Connect, r.connect)
	case Wait:
		return r.measured(ctx, s, report.Idle, r.wait)
	case Change:
		return r.measured(ctx, s, report.Change, r.change)
	case Storm:
		return r.measured(ctx, s, report.Storm, r.storm)
	case Release:
		return r.measured(ctx, s, report.Release, r.release)
	case Restart:
		return r.measured(ctx, s, report.Restart, r.restart)
	}
	return nil, fmt.Errorf("unknown action %q", s.Do)
}

// took is how long clients waited, and what there was to see.
type took struct {
	time    time.Duration
	changes int
	rollout *report.Rollout // what became of a release
}

// measured does what a step does, and reads everything before and after that.
func (r *runner) measured(ctx context.Context, s Step, kind string, do func(context.Context, Step) (took, error)) (*report.Step, error) {
	if err := r.bed.fleet.reset(ctx); err != nil {
		return nil, err
	}
	heapBefore, err := r.bed.heap(ctx)
	if err != nil {
		return nil, err
	}
	from, err := r.bed.read(ctx)
	if err != nil {
		return nil, err
	}
	done, failed := do(ctx, s)
	if failed == nil && s.Do != Wait {
		failed = r.bed.rest(ctx)
	}
	to, err := r.bed.read(ctx)
	if err != nil {
		if failed != nil {
			return nil, failed
		}
		return nil, err
	}
	if s.Name == "" {
		return nil, failed
	}
	out := between(&from, &to)
	if failed == nil && (kind == report.Connect || kind == report.Change) {
		if out.Rested, failed = r.bed.rested(ctx); failed != nil {
			return nil, failed
		}
	}
	if out.Heap, err = r.bed.heap(ctx); err != nil {
		return nil, errors.Join(failed, err)
	}
	out.Heap.Allocated -= heapBefore.Allocated
	out.Name, out.Kind, out.At, out.Changes = s.Name, kind, seconds(from.at.Sub(r.began)), done.changes
	out.Rollout = done.rollout
	if done.time > 0 {
		out.Seconds = seconds(done.time)
	}
	latency := to.clients.FirstSync
	if kind == report.Change {
		latency, out.Late = to.clients.Propagation, seconds(to.server.Late)
	}
	out.Latency, err = latencyOf(latency)
	return &out, errors.Join(failed, err)
}

// orUsual is how long a step may take.
func (s Step) orUsual(usual time.Duration) time.Duration {
	if s.For > 0 {
		return s.For
	}
	return usual
}

// partly is no error where some clients may miss what they wait for.
func (s Step) partly(elapsed time.Duration, err error) (time.Duration, error) {
	if s.Partial && errors.Is(err, errMissing) {
		return elapsed, nil
	}
	return elapsed, err
}

// connect lets all clients connect, and waits until they hold everything.
func (r *runner) connect(ctx context.Context, s Step) (took, error) {
	elapsed, err := s.partly(r.bed.fleet.connect(ctx, s.orUsual(syncTimeout)))
	return took{time: elapsed}, err
}

func (r *runner) wait(ctx context.Context, s Step) (took, error) {
	return took{}, pause(ctx, s.For)
}

// change starts a schedule of changes, and waits until all clients have the last
// one.
func (r *runner) change(ctx context.Context, s Step) (took, error) {
	began := time.Now()
	// There may be fewer resources than a burst has.
	s.Change.Resources = min(s.Change.Resources, r.bed.setup.Resources)
	schedule := drive.Schedule{Change: s.Change, Interval: s.Interval, Count: s.Count}
	var plan drive.Planned
	if err := r.bed.server.Call(ctx, drive.OrderSchedule, schedule, &plan); err != nil {
		return took{}, err
	}
	if err := r.bed.fleet.expect(ctx, schedule, plan); err != nil {
		return took{}, err
	}
	if err := pause(ctx, time.Until(plan.Last.At)); err != nil {
		return took{}, err
	}
	_, err := s.partly(r.bed.fleet.await(ctx, plan.Last.Revision, &s.Change, s.orUsual(changeTimeout)))
	if err != nil {
		return took{}, err
	}
	elapsed := time.Since(began)
	stats, err := r.bed.stats(ctx)
	switch {
	case err != nil:
		return took{}, err
	case stats.Error != "":
		return took{}, fmt.Errorf("the schedule of changes: %s", stats.Error)
	case stats.Scheduled: // a partial step may be over first
		err = r.bed.server.Call(ctx, drive.OrderStop, nil, nil)
	}
	return took{time: elapsed, changes: s.Count}, err
}

// How long clients are away while something changes: until they are gone, and then until the
// target has the change.
const untilGone, untilChanged = 2 * time.Second, 2 * time.Second

// storm lets clients reconnect, and waits until all hold everything.
func (r *runner) storm(ctx context.Context, s Step) (took, error) {
	storm := fleet.Storm{Versions: "warm", Over: s.For, Links: s.Count}
	if s.Cold {
		storm.Versions = "cold"
	}
	if s.Percent == 0 {
		elapsed, err := r.bed.fleet.storm(ctx, storm, syncTimeout)
		return took{time: elapsed}, err
	}
	storm.Away = s.For + untilGone + untilChanged
	change := changeOf(s.Percent, r.bed.setup.Resources)
	var changed drive.Changed
	result := make(chan error, 1)
	go func() {
		err := pause(ctx, s.For+untilGone)
		if err == nil {
			err = r.bed.server.Call(ctx, drive.OrderChange, change, &changed)
		}
		result <- err
	}()
	elapsed, err := r.bed.fleet.storm(ctx, storm, syncTimeout)
	if failed := errors.Join(err, <-result); failed != nil {
		return took{}, failed
	}
	_, err = r.bed.fleet.await(ctx, changed.Revision, &change, syncTimeout)
	return took{time: elapsed, changes: 1}, err
}

// changeOf is a change of so many percent of all clusters and endpoints, which it makes to
// endpoints alone: a changed cluster would bring its endpoints along (E3).
func changeOf(percent, resources int) content.Change {
	return content.Change{Kind: content.Burst, Type: content.EndpointURL, Resources: min(max(1, 2*resources*percent/100), resources)}
}

// restart restarts the nodes, one after the other, and waits each time until all
// clients hold everything again.
func (r *runner) restart(ctx context.Context, _ Step) (took, error) {
	began := time.Now()
	for _, n := range r.bed.nodes {
		if err := n.stop(); err != nil {
			return took{}, err
		}
		if err := n.start(ctx); err != nil {
			return took{}, err
		}
		if _, err := r.bed.fleet.await(ctx, 0, nil, syncTimeout); err != nil {
			return took{}, fmt.Errorf("%s was restarted: %w", n.name, err)
		}
	}
	return took{time: time.Since(began)}, nil
}
