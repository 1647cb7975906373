package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"xdsrelay/bench/report"
)

// warmClients is how many clients a target has seen, at least, before the
// measurement starts, so that what all clients share is there already.
const warmClients = 8

// run takes a target through the steps once. What was measured until an error
// is in what it returns; the error is there as text.
func (c *Config) run(ctx context.Context, t Target, setup report.Setup, steps []Step, round int) report.Run {
	out := report.Run{Target: t.String(), Round: round}
	if err := c.measure(ctx, t, setup, steps, &out); err != nil {
		out.Error = err.Error()
	}
	return out
}

func (c *Config) measure(ctx context.Context, t Target, setup report.Setup, steps []Step, out *report.Run) (err error) {
	dir, remove, err := tempDir()
	if err != nil {
		return err
	}
	defer remove()
	// Whatever goes wrong, no process outlives the run.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.status("start")
	b, err := newBed(ctx, c.Programs, t, setup, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if !setup.Cold {
		c.status("warm up")
		if err := b.warmUp(ctx); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	if err := b.rest(ctx); err != nil {
		return err
	}
	if out.HeapBefore, err = b.heap(ctx); err != nil {
		return err
	}
	if out.Before, err = b.use(); err != nil {
		return err
	}
	if b.fleet, err = startFleet(ctx, c.Programs, t, setup, setup.Clients, b.certs, b.addrs); err != nil {
		return err
	}
	s := newSampler(b.use, c.sampled)
	defer func() { out.Samples = s.end() }()
	r := &runner{bed: b, began: s.began}
	for _, step := range steps {
		c.status(step.String())
		done, err := r.do(ctx, step)
		if done != nil {
			out.Steps = append(out.Steps, *done)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("step %s: %w", step, err), b.dead())
		}
		if err := b.dead(); err != nil {
			return fmt.Errorf("step %s: %w", step, err)
		}
	}
	stats, err := b.fleet.stats(ctx)
	out.Ends = endsOf(&stats)
	if t.knowsProtocol() {
		out.Violations = violationsOf(&stats)
	}
	return err
}

// warmUp lets a few clients of each key get everything, and leave.
func (b *bed) warmUp(ctx context.Context) error {
	setup := b.setup
	setup.Slow, setup.Stuck = 0, 0
	fleet, err := startFleet(ctx, b.p, b.target, setup, max(warmClients*setup.Nodes, setup.Keys*setup.Nodes), b.certs, b.addrs)
	if err != nil {
		return err
	}
	defer fleet.close()
	_, err = fleet.connect(ctx, syncTimeout)
	return err
}

// String is the step in a few words.
func (s Step) String() string {
	if s.Name == "" {
		return string(s.Do)
	}
	return s.Name
}

// seconds rounds to a thousandth.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
