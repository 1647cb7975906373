package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Config says how a demo runs. It is not changed after [Run] was called.
type Config struct {
	// Dir is a directory of resources to serve; it is watched, and never
	// written to. Empty means the examples that are part of the program, copied
	// to a temporary directory and changed every few seconds.
	Dir string
	// Clients is how many clients there are. At least 1; default 200.
	Clients int
	// For ends the demo after a time; 0 means that only the context does.
	For time.Duration
	// Every is the time from one change to the next. Default [DefaultEvery].
	Every time.Duration
	// Slow is how long a slow client takes over each response. Default
	// [DefaultSlow].
	Slow time.Duration
	// Listen and Admin are the addresses of the relay's ports. Default: free
	// ports on loopback.
	Listen, Admin string
	// Version is the program's.
	Version string
	// Out is where the demo shows itself. Required.
	Out io.Writer
	// Live draws a screen that is renewed in place; otherwise there is a plain
	// line for each change. See [Terminal].
	Live bool
}

// The times where nothing else is said.
const (
	DefaultEvery = 2 * time.Second
	DefaultSlow  = 1500 * time.Millisecond
)

func (c *Config) setDefaults() error {
	if c.Out == nil {
		return errors.New("demo: no output to show anything on")
	}
	if c.Clients == 0 {
		c.Clients = 200
	}
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	if c.Slow == 0 {
		c.Slow = DefaultSlow
	}
	if c.Clients < 1 || c.Every < 0 || c.For < 0 || c.Slow < 0 {
		return fmt.Errorf("demo: %d clients, slow ones taking %v, a change every %v, for %v: expected at least one client and no negative time",
			c.Clients, c.Slow, c.Every, c.For)
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Admin == "" {
		c.Admin = "127.0.0.1:0"
	}
	return nil
}

const (
	tick = 50 * time.Millisecond
	// quiet is how long before its end a demo stops changing things, if there
	// is that much time; patience is how long clients may take after the end.
	quiet    = 3 * time.Second
	patience = 30 * time.Second
)

// demo is a running demo. It belongs to the goroutine of Run, except where a
// field's own type says otherwise.
type demo struct {
	cfg   Config
	began time.Time

	files *directory
	edits *editor // nil if the directory is the user's
	node  *node
	fleet *fleet
	track *tracker
	view  view
}

// Run runs a demo until ctx ends or its time is over. It returns nil if every
// client held the last state of the directory in the end, and an error that
// says who lacks what otherwise.
func Run(ctx context.Context, cfg Config) (err error) {
	d, stop, err := start(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	d.play(ctx)
	return d.end()
}

// start starts everything; stop ends it, and may be called once.
func start(cfg Config) (d *demo, stop func() error, err error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, nil, err
	}
	d = &demo{cfg: cfg, began: time.Now()}
	root, remove := cfg.Dir, func() error { return nil }
	if root == "" {
		if root, err = copyExamples(); err != nil {
			return nil, nil, err
		}
		remove = func() error { return os.RemoveAll(root) }
		d.edits = newEditor(root)
	}
	if d.files, err = openDirectory(root); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	if d.node, err = startNode(cfg, d.files.root, nil); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	if d.fleet, err = startFleet(d.node.addr, newClients(cfg, d.files), d.files.keys()); err != nil {
		return nil, nil, errors.Join(err, d.node.stop(), remove())
	}
	d.track = newTracker(d.files, d.fleet, d.node)
	d.view = newPlain(d)
	if cfg.Live {
		d.view = newScreen(d)
	}
	return d, func() error {
		d.fleet.stop()
		return errors.Join(d.node.stop(), remove())
	}, nil
}

// play changes resources and shows what happens.
func (d *demo) play(ctx context.Context) {
	d.view.start()
	defer d.view.stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	next := time.Now()
	for {
		d.step()
		d.view.show()
		now := time.Now()
		last := d.cfg.For > 0 && now.After(d.began.Add(d.cfg.For-min(quiet, d.cfg.For/4)))
		if d.edits != nil && !d.track.syncedAt.IsZero() && !last && now.After(next) {
			pause, at, err := d.edits.next()
			d.track.wrote(at, err)
			d.step()
			next = now.Add(pause(d.cfg.Every))
		}
		select {
		case <-ctx.Done():
			return
		case err := <-d.node.ended:
			d.node.failed = err
			return
		case <-ticker.C:
		}
		if d.cfg.For > 0 && time.Since(d.began) >= d.cfg.For {
			return
		}
	}
}

// step looks at everything once.
func (d *demo) step() {
	d.files.read()
	d.track.update()
}

// end waits for the clients to have the last state, and says what came of it.
func (d *demo) end() error {
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	d.step()
	for !d.track.inStep() && !d.fleet.refused(d.files) && time.Now().Before(deadline) && d.node.failed == nil {
		<-ticker.C
		d.step()
	}
	d.node.scrape()
	d.view.flush()
	lacks := d.fleet.verify(d.files)
	summarize(d, lacks)
	switch {
	case d.node.failed != nil:
		return fmt.Errorf("the relay failed: %w", d.node.failed)
	case len(lacks) > 0:
		return fmt.Errorf("%d of %d clients do not have the last state", countClients(lacks), d.cfg.Clients)
	}
	return nil
}
