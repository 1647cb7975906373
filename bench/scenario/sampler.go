package scenario

import (
	"math"
	"sync"
	"time"

	"xdsrelay/bench/report"
)

// sampleEach is the time between samples, and maxSamples how many are kept: a
// run that takes longer keeps every second one, then every fourth, and so on.
const (
	sampleEach = 250 * time.Millisecond
	maxSamples = 240
)

// sampler follows what a target uses.
type sampler struct {
	began time.Time
	use   func() (report.Use, error)
	seen  func(report.Sample) // told of each; may be nil

	stop chan struct{}
	done sync.WaitGroup

	samples []report.Sample // owned by the goroutine until it is done
}

// newSampler begins to sample. The caller has to call end.
func newSampler(use func() (report.Use, error), seen func(report.Sample)) *sampler {
	s := &sampler{began: time.Now(), use: use, seen: seen, stop: make(chan struct{})}
	s.done.Go(s.run)
	return s
}

// end returns the samples.
func (s *sampler) end() []report.Sample {
	close(s.stop)
	s.done.Wait()
	return s.samples
}

func (s *sampler) run() {
	tick := time.NewTicker(sampleEach)
	defer tick.Stop()
	last, err := s.use()
	if err != nil {
		return
	}
	lastAt, each, skipped := s.began, 1, 0
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		now, err := s.use()
		if err != nil {
			return // the run finds out by itself
		}
		at := time.Now()
		sample := report.Sample{
			At:  seconds(at.Sub(s.began)),
			CPU: math.Round(max(0, since(now, last).CPU)/at.Sub(lastAt).Seconds()*1000) / 1000,
			RSS: now.RSS,
		}
		if s.seen != nil {
			s.seen(sample)
		}
		if skipped++; skipped < each {
			continue
		}
		skipped, last, lastAt = 0, now, at
		s.samples = append(s.samples, sample)
		if len(s.samples) == maxSamples {
			s.samples, each = thin(s.samples), each*2
		}
	}
}

// thin makes one of each two samples.
func thin(samples []report.Sample) []report.Sample {
	out := samples[:0]
	for i := 1; i < len(samples); i += 2 {
		s := samples[i]
		s.CPU = (s.CPU + samples[i-1].CPU) / 2
		out = append(out, s)
	}
	return out
}
