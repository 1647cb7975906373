package secure

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/events"
)

// maxFile bounds a file in bytes; what is meant here takes a few thousand.
const maxFile = 1 << 20

// settles is how long after its last change a file counts as changing. Within
// that time a further change may leave its modification time as it is.
const settles = 2 * time.Second

// Watched is what files say, read again when they have changed. All methods are
// safe for concurrent use.
type Watched[T any] struct {
	// Fixed after construction.
	paths []string
	parse func(contents [][]byte) (T, error)
	log   *slog.Logger

	mu sync.Mutex
	// Guarded by mu.
	value   T
	stamps  []os.FileInfo       // of what was read last; nil to read it again in any case
	settled bool                // any further change will show in the stamps
	digests [][sha256.Size]byte // of the contents that value was made of
	failed  string              // the failure that was logged last; empty if there is none
}

// SameVersion reports whether two looks at a file saw the same version of it; nil is a file that is
// not there.
func SameVersion(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// Watch reads the files, each of 1 MiB at most, and gives what they hold to parse,
// whose errors have to name the file. It fails where that cannot be done now; later
// failures are logged, and leave what was read before.
func Watch[T any](paths []string, log *slog.Logger, parse func(contents [][]byte) (T, error)) (*Watched[T], error) {
	w := &Watched[T]{paths: slices.Clone(paths), parse: parse, log: log}
	if err := w.readLocked(w.look()); err != nil { // nobody else has it yet
		return nil, err
	}
	return w, nil
}

// Get returns what the files hold now. It costs a look at each file's times.
func (w *Watched[T]) Get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.look()
	if w.settled && slices.EqualFunc(now, w.stamps, SameVersion) {
		return w.value
	}
	err := w.readLocked(now)
	switch {
	case err == nil && w.failed != "":
		w.failed = ""
		w.log.Info("files are usable again", events.Key, events.FilesUsable, "files", w.paths)
	case err != nil && err.Error() != w.failed:
		w.failed = err.Error()
		w.log.Error("files changed and cannot be used; keeping the previous content", events.Key, events.FilesUnusable, "files", w.paths, "error", err)
	}
	return w.value
}

// look returns the files' stamps, nil if one of them is not there.
func (w *Watched[T]) look() []os.FileInfo {
	stamps := make([]os.FileInfo, len(w.paths))
	for i, path := range w.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil
		}
		stamps[i] = info
	}
	return stamps
}

// readLocked reads the files, whose stamps were taken before.
func (w *Watched[T]) readLocked(before []os.FileInfo) error {
	w.stamps, w.settled = nil, false
	contents := make([][]byte, len(w.paths))
	for i, path := range w.paths {
		var err error
		if contents[i], err = readFile(path); err != nil {
			return err
		}
	}
	now := time.Now()
	w.stamps, w.settled = before, before != nil && !slices.ContainsFunc(before, func(info os.FileInfo) bool {
		return now.Sub(info.ModTime()) < settles
	})
	digests := make([][sha256.Size]byte, len(contents))
	for i, c := range contents {
		digests[i] = sha256.Sum256(c)
	}
	if w.digests != nil && slices.Equal(digests, w.digests) {
		return nil // files that have just changed are read for each connection
	}
	value, err := w.parse(contents)
	if err != nil {
		return err
	}
	w.value, w.digests = value, digests
	return nil
}

// readFile reads a file that may not be larger than maxFile.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err // which names it
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxFile:
		return nil, fmt.Errorf("%s: more than %d bytes, expected a small file", path, maxFile)
	}
	return content, nil
}
