package scenario

import (
	"fmt"
	"sync"
	"time"

	"xdsrelay/bench/report"
)

// progress is what is done at the time. The zero value is ready; it is told by
// the goroutine that measures, and by the one that samples.
type progress struct {
	mu sync.Mutex
	// Guarded by mu.
	run   string
	step  string
	since time.Time
}

func (p *progress) begin(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run, p.step, p.since = run, "", time.Now()
}

// status tells that a step begins.
func (c *Config) status(step string) {
	p := &c.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.since = step, time.Now()
	if c.Status != nil {
		c.Status(p.run + " · " + step)
	}
}

// sampled tells how a step goes.
func (c *Config) sampled(s report.Sample) {
	p := &c.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Status != nil {
		c.Status(fmt.Sprintf("%s · %s · %.1f s · %.2f cores · %s", p.run, p.step, time.Since(p.since).Seconds(), s.CPU,
			report.Bytes.Format(float64(s.RSS))))
	}
}
