package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// DirectoryConfig says where a [Directory] reads and how it behaves.
type DirectoryConfig struct {
	// Path is the directory that holds the files. Required. It may come into
	// being later; something else than a directory in its place is an error.
	Path string
	// Watched is a directory in which any change is the sign to read Path
	// again; Path itself is then not watched (I2). It is for content behind a
	// symbolic link that is swapped further up. Empty: Path and its
	// sub-directories are watched, which covers mounted ConfigMaps too.
	Watched string
	// Name tells the directory from other origins in metrics. Empty for the only
	// or first one.
	Name string
	// Meter makes the metrics. Nil: none.
	Meter metric.Meter
	// Logger is told about each bad file once per change. Nil: silence.
	Logger *slog.Logger
	// Settle is how long a change has to rest before it is read, so that a
	// file that is written in place is not read half-way. Default 100 ms;
	// negative means not at all. Changes that never rest are read after ten
	// times as long.
	Settle time.Duration
}

func (c *DirectoryConfig) setDefaults() (err error) {
	if c.Path == "" {
		return errors.New("directory origin: the path is empty, expected a directory of discovery responses")
	}
	if c.Path, err = filepath.Abs(c.Path); err != nil {
		return fmt.Errorf("directory origin: %w", err)
	}
	if c.Watched != "" {
		if c.Watched, err = filepath.Abs(c.Watched); err != nil {
			return fmt.Errorf("directory origin: %w", err)
		}
	}
	if c.Settle == 0 {
		c.Settle = 100 * time.Millisecond
	}
	c.Settle = max(c.Settle, 0)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return notADirectory(c.Path)
}

// notADirectory returns an error if path is there but is something else.
func notADirectory(path string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return fmt.Errorf("directory origin: %s is a file, expected a directory", path)
	}
	return nil
}

// Directory is an origin that serves files: one DiscoveryResponse in each (or
// one Resource, for a collection), all of them together everything there is
// (I1).
//
// The extension of a file says how it is written: .pb and .bin are binary,
// .json is protobuf's JSON form, .yaml and .yml are that JSON form in YAML,
// .txtpb, .textproto and .pb_text are protobuf's text form. Anything else, and
// any name that starts with a dot, is not looked at. type_url may be left out
// where there is a resource to take it from, and version_info where the content
// should be its own version. A type may be spread over several files.
//
// Files at the top are for every key. A sub-directory is for one key only: the
// key as url.PathEscape writes it, with a leading dot written %2E. Both are
// merged; where both have a resource of one name and type, the key's own stands.
// Keys are made of what clients claim, so no path is ever made of a key: the
// sub-directories that exist are read, and a key is looked up among their names.
//
// Symbolic links must be relative and lead to files in the directory, as those of a
// mounted ConfigMap do; all others are errors. The directory itself may be a link.
//
// A file that cannot be used leaves its own last good content in force (I3), and
// all other files are applied. The same name twice in files of one level is an
// error of the file that comes later by path, whose copy is not used. A file
// that could not be used from the very start might hold anything: until it is
// repaired or removed, nothing of the types that it may hold is called missing
// or complete (K13).
//
// All files are read once for all keys. Methods are safe for concurrent use.
type Directory struct {
	// Fixed after construction.
	cfg     DirectoryConfig
	metrics *dirMetrics
	stop    context.CancelFunc
	done    sync.WaitGroup

	// Owned by the goroutine of watch, once it runs.
	loader *dirLoader
	notify *dirNotify

	// Atomic: replaced as a whole, never nil after construction.
	current atomic.Pointer[dirSnapshot]
}

// NewDirectory reads the directory and goes on to follow its changes until
// [Directory.Close]. Files that cannot be used, and a directory that is not
// there, are not errors here: see [Directory.Errors] and [CheckDirectory]. It
// fails where the configuration is wrong or the system gives no watches.
func NewDirectory(cfg DirectoryConfig) (*Directory, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	notify, err := newDirNotify(cfg)
	if err != nil {
		return nil, err
	}
	d, err := startDirectory(cfg, notify)
	if err != nil {
		return nil, errors.Join(err, notify.close())
	}
	return d, nil
}

// startDirectory is NewDirectory after its checks, with any source of events.
func startDirectory(cfg DirectoryConfig, notify *dirNotify) (*Directory, error) {
	metrics, err := newDirMetrics(cfg.Meter, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("directory origin: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &Directory{
		cfg: cfg, metrics: metrics, stop: stop, notify: notify,
		loader: newDirLoader(cfg.Path),
	}
	d.current.Store(newDirSnapshot())
	d.reload(ctx, dirChange{})
	d.done.Go(func() { d.watch(ctx) })
	return d, nil
}

// Close ends the watching of files and waits for that. What was read last
// stays in force for those who still run.
func (d *Directory) Close() {
	d.stop()
	d.done.Wait()
}

// Errors returns what is wrong now, by absolute path: files that cannot be used,
// sub-directories that cannot be read, or the directory itself. The caller may
// keep and change the map.
func (d *Directory) Errors() map[string]error {
	s := d.current.Load()
	errs := make(map[string]error, len(s.errs)+1)
	maps.Copy(errs, s.errs)
	if s.err != nil {
		errs[d.cfg.Path] = s.err
	}
	return errs
}

// CheckDirectory reads the directory at path once, as a [Directory] would, and
// returns everything that is wrong with it in the order of paths, joined; nil if
// all of it can be served.
func CheckDirectory(path string) error {
	cfg := DirectoryConfig{Path: path}
	if err := cfg.setDefaults(); err != nil {
		return err
	}
	l := newDirLoader(cfg.Path)
	if err := l.scan(dirChange{}, func(string) {}); err != nil {
		return err
	}
	found := l.snapshot(nil).errs
	errs := make([]error, 0, len(found))
	for _, p := range slices.Sorted(maps.Keys(found)) {
		errs = append(errs, found[p])
	}
	return errors.Join(errs...)
}

// readError says that the directory at path cannot be read.
func readError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory origin: %s does not exist, expected a directory", path)
	}
	return fmt.Errorf("directory origin: cannot read %s: %w", path, err)
}
