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

// DirectoryConfig is where a [Directory] reads files and how it behaves.
type DirectoryConfig struct {
	// Path is the directory with the files. Required. It may be created later. It is an error if
	// Path exists and is not a directory.
	Path string
	// Watched is a directory in which any change makes the relay read Path again; Path itself is
	// then not watched (I2). It is for content behind a symbolic link that is swapped further up.
	// Empty: the relay watches Path and its sub-directories, which covers mounted ConfigMaps, too.
	Watched string
	// Name distinguishes the directory from other origins in metrics. Empty for the only or first
	// one.
	Name string
	// Meter creates the metrics. Nil: none.
	Meter metric.Meter
	// Logger logs each bad file once per change. Nil: no logs.
	Logger *slog.Logger
	// Settle is how long files must be unchanged before they are read, so that a file that is
	// written in place is not read half-way. Default 100 ms; negative means no delay. If changes
	// never pause, files are read after ten times as long.
	Settle time.Duration
}

func (c *DirectoryConfig) setDefaults() (err error) {
	if c.Path == "" {
		return errors.New("directory: the path is empty, expected a directory of discovery responses")
	}
	if c.Path, err = filepath.Abs(c.Path); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if c.Watched != "" {
		if c.Watched, err = filepath.Abs(c.Watched); err != nil {
			return fmt.Errorf("directory: %w", err)
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

// notADirectory returns an error if path exists and is not a directory.
func notADirectory(path string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return fmt.Errorf("directory: %s is a file, expected a directory", path)
	}
	return nil
}

// Directory is an origin that serves files. Each file has one DiscoveryResponse (or one Resource,
// for a collection). All files together are the complete configuration (I1).
//
// The extension of a file selects its format: .pb and .bin are binary, .json is the JSON form of
// protobuf, .yaml and .yml are that JSON form in YAML, .txtpb, .textproto and .pb_text are the text
// form of protobuf. Other files, and names that start with a dot, are ignored. type_url may be
// omitted if the file has a resource, whose type is used then. version_info may be omitted; the
// version is then made from the content. A type may be spread over several files.
//
// Files at the top level apply to every key. A sub-directory applies to one key only: its name is
// the key as url.PathEscape writes it, with a leading dot written %2E. Both levels are merged;
// where both have a resource of the same name and type, the one of the key wins. Keys are made of
// values that clients send, so no path is ever made of a key: the relay reads the existing
// sub-directories and looks up the key among their names.
//
// Symbolic links must be relative and point to files in the directory, as those of a mounted
// ConfigMap do; all others are errors. The directory itself may be a link.
//
// If a file is invalid, its own last good content stays in effect (I3), and all other files are
// applied. If two files of one level have the same name, the file that is later by path is invalid,
// and its copy is not used. A file that was invalid from the start may hold anything: until it is
// fixed or removed, no resource of the types that it may hold counts as missing, and these types do
// not count as complete (K13).
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

// NewDirectory reads the directory and follows its changes until [Directory.Close]. Invalid files
// and a missing directory are not errors here: see [Directory.Errors] and [CheckDirectory]. It
// returns an error if the configuration is invalid or the system provides no watches.
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
		return nil, fmt.Errorf("directory: %w", err)
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

// Close stops watching the files and waits until that has ended. The content that was read last
// stays in effect for each Run that is still active.
func (d *Directory) Close() {
	d.stop()
	d.done.Wait()
}

// Errors returns the present problems by absolute path: invalid files, sub-directories that cannot
// be read, or the directory itself. The caller may keep and change the map.
func (d *Directory) Errors() map[string]error {
	s := d.current.Load()
	errs := make(map[string]error, len(s.errs)+1)
	maps.Copy(errs, s.errs)
	if s.err != nil {
		errs[d.cfg.Path] = s.err
	}
	return errs
}

// CheckDirectory reads the directory at path once, as a [Directory] would. It returns all problems
// in the order of paths, joined; nil if all files can be served.
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

// readError returns an error for a directory that cannot be read.
func readError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory: %s does not exist, expected a directory", path)
	}
	return fmt.Errorf("directory: cannot read %s: %w", path, err)
}
