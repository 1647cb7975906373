package upstream

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// rescanEvery is the interval between scans that no event caused: the system may drop events,
	// and some file systems send none.
	rescanEvery = 30 * time.Second
	// retryEvery is that interval while the directory cannot be read.
	retryEvery = time.Second
	// settleLimit bounds the wait while files keep changing, in settle times.
	settleLimit = 10
)

// dirNotify reports when a directory changes. One goroutine owns it.
type dirNotify struct {
	events <-chan fsnotify.Event
	errors <-chan error

	fs     *fsnotify.Watcher // nil in tests that provide their own events
	root   string
	marked string                 // watched instead of root (I2), or ""
	dirs   map[string]fs.FileInfo // directories that are watched
	failed map[string]struct{}    // directories that cannot be watched, after that was logged
}

func newDirNotify(cfg DirectoryConfig) (*dirNotify, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("directory: the system has no file watches left: %w", err)
	}
	return &dirNotify{
		events: w.Events, errors: w.Errors,
		fs: w, root: cfg.Path, marked: cfg.Watched,
		dirs: make(map[string]fs.FileInfo), failed: make(map[string]struct{}),
	}, nil
}

func (n *dirNotify) close() error {
	if n.fs == nil {
		return nil
	}
	return n.fs.Close()
}

// relevant reports whether an event may change the content of the directory. The parent of the root
// is watched only to see the root appear or disappear.
func (n *dirNotify) relevant(ev fsnotify.Event) bool {
	if ev.Op == fsnotify.Chmod {
		return false
	}
	return n.marked != "" || n.fs == nil || ev.Name == n.root || filepath.Dir(ev.Name) != filepath.Dir(n.root)
}

// begin starts a scan. end stops watching the directories for which follow was not called in
// between.
func (n *dirNotify) begin(log *slog.Logger) (follow func(dir string), end func()) {
	if n.fs == nil {
		return func(string) {}, func() {}
	}
	kept := make(map[string]struct{}, len(n.dirs))
	add := func(dir string) {
		kept[dir] = struct{}{}
		n.add(dir, log)
	}
	end = func() {
		for dir := range n.dirs {
			if _, ok := kept[dir]; !ok {
				delete(n.dirs, dir)
				_ = n.fs.Remove(dir) // it may no longer exist, nor its watch
			}
		}
	}
	if n.marked != "" {
		add(n.marked)
		return func(string) {}, end
	}
	add(filepath.Dir(n.root))
	return add, end
}

// add watches dir, or the directory that has replaced it.
func (n *dirNotify) add(dir string, log *slog.Logger) {
	info, err := os.Stat(dir)
	if old := n.dirs[dir]; old != nil && (err != nil || !os.SameFile(old, info)) {
		delete(n.dirs, dir)
		_ = n.fs.Remove(dir)
	}
	if err == nil && n.dirs[dir] == nil {
		if err = n.fs.Add(dir); err == nil {
			n.dirs[dir] = info
		}
	}
	switch _, reported := n.failed[dir]; {
	case err == nil:
		delete(n.failed, dir)
	case !reported:
		n.failed[dir] = struct{}{}
		log.Warn("directory: cannot watch a directory; polling modification times",
			"path", dir, "error", err, "every", rescanEvery)
	}
}

// watch scans the directory after each change, once the files have stopped changing.
func (d *Directory) watch(ctx context.Context) {
	defer func() { _ = d.notify.close() }()
	rescan := time.NewTimer(d.pause())
	defer rescan.Stop()
	rest := time.NewTimer(time.Hour)
	rest.Stop()
	defer rest.Stop()
	var change dirChange
	var limit time.Time // when to read change at the latest
	touch := func() {
		now := time.Now()
		if limit.IsZero() {
			limit = now.Add(settleLimit * d.cfg.Settle)
		}
		rest.Reset(min(d.cfg.Settle, limit.Sub(now)))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-d.notify.events:
			if d.notify.relevant(ev) {
				if change.paths == nil {
					change.paths = make(map[string]struct{})
				}
				change.paths[ev.Name] = struct{}{}
				touch()
			}
			continue
		case err := <-d.notify.errors:
			d.cfg.Logger.Warn("directory: change notifications were lost; reading the directory again", "path", d.cfg.Path, "error", err)
			change.all = true
			touch()
			continue
		case <-rescan.C:
			if !limit.IsZero() {
				continue // a change is pending; its scan sets this timer again
			}
		case <-rest.C:
		}
		d.reload(ctx, change)
		change, limit = dirChange{}, time.Time{}
		rescan.Reset(d.pause())
	}
}

func (d *Directory) pause() time.Duration {
	if d.current.Load().err != nil {
		return retryEvery
	}
	return rescanEvery
}

// reload scans for changes and publishes a new snapshot to the runners.
func (d *Directory) reload(ctx context.Context, change dirChange) {
	follow, end := d.notify.begin(d.cfg.Logger)
	err := d.loader.scan(change, follow)
	end()
	old := d.current.Load()
	if err != nil {
		d.keepLast(ctx, old, err)
		return
	}
	if !d.loader.dirty && old.err == nil {
		return
	}
	s := d.loader.snapshot(old)
	d.replace(old, s)
	d.metrics.loaded(ctx, len(d.loader.files)-len(s.errs), len(s.errs))
	d.report(ctx)
}

func (d *Directory) replace(old, s *dirSnapshot) {
	d.current.Store(s)
	close(old.replaced)
}

// keepLast keeps the content that was read last in effect while the directory cannot be read.
func (d *Directory) keepLast(ctx context.Context, old *dirSnapshot, err error) {
	if old.err != nil && old.err.Error() == err.Error() {
		return
	}
	d.metrics.failed(ctx, reasonRead)
	d.cfg.Logger.Warn("directory: cannot be read; the last content stays active", "path", d.cfg.Path, "error", err)
	s := *old
	s.err, s.replaced = err, make(chan struct{})
	d.replace(old, &s)
}

// report logs and counts the result of each file that changed, once per change (I3).
func (d *Directory) report(ctx context.Context) {
	for _, f := range d.loader.files {
		msg := ""
		if f.err != nil {
			msg = f.err.Error()
		}
		switch {
		case f.err != nil && (f.changed || f.reported != msg):
			d.metrics.failed(ctx, f.reason)
			d.cfg.Logger.Warn("directory: a file is unusable; its last valid content stays active",
				"path", f.path, "error", f.err, "in_force", f.good != nil)
		case f.err == nil && f.reported != "":
			d.cfg.Logger.Info("directory: a file is usable again", "path", f.path)
		}
		f.changed, f.reported = false, msg
	}
}
