package upstream

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"xdsrelay/relay/resource"
)

const (
	// maxDirFile bounds the size of a file, in bytes.
	maxDirFile = 64 << 20
	// racyMtime is how old a modification time must be until it distinguishes two states of a file
	// on any file system.
	racyMtime = 2 * time.Second
)

// dirReason is why a file is invalid; it is an attribute of a metric.
type dirReason string

const (
	reasonRead      dirReason = "unreadable"
	reasonParse     dirReason = "malformed"
	reasonName      dirReason = "bad_directory_name"
	reasonDuplicate dirReason = "duplicate_name"
)

// dirContent is the content of one file.
type dirContent struct {
	typ       *resource.Type
	version   string
	resources []*resource.Resource
}

// dirFile is the last read state of a file, or a sub-directory with a problem. It belongs to its
// loader.
type dirFile struct {
	path, level string // level is "" at the top, else the name of the sub-directory

	// Read last.
	info   fs.FileInfo
	stable bool // info distinguishes this content from any later one
	sum    [sha256.Size]byte
	parsed *dirContent // nil if the file cannot be parsed
	broken error       // why it is invalid
	reason dirReason
	holds  []string // types that a broken file may hold; nil for any

	// Derived from that.
	good     *dirContent // last content in effect; nil if there never was any
	initial  bool        // the file existed when the directory was read first, and never was in effect
	err      error       // the present problem
	changed  bool        // since err was reported last
	reported string      // the text that was reported last
}

// dirChange is what is known to have changed: single paths, or everything.
type dirChange struct {
	paths map[string]struct{}
	all   bool
}

func (c dirChange) covers(path string) bool {
	_, named := c.paths[path]
	return c.all || named
}

// dirLoader reads the files of a directory and keeps the last good content of each. Only one
// goroutine at a time may use it.
type dirLoader struct {
	root  string
	dir   *os.Root            // root while it is scanned; it follows no link that leads out of it
	files map[string]*dirFile // by path
	read  bool                // root was readable at least once
	dirty bool                // something changed since the last snapshot
}

func newDirLoader(root string) *dirLoader {
	return &dirLoader{root: root, files: make(map[string]*dirFile)}
}

// scan updates the files from the file system. It calls watch for each directory before it lists
// the directory, so that no later change is lost. It returns an error if the root cannot be read;
// nothing has changed then.
func (l *dirLoader) scan(change dirChange, watch func(dir string)) error {
	watch(l.root)
	entries, err := l.open()
	if err != nil {
		if e := notADirectory(l.root); e != nil {
			return e
		}
		return readError(l.root, err)
	}
	defer l.dir.Close()
	seen := make(map[string]struct{}, len(l.files))
	for _, e := range entries {
		path := filepath.Join(l.root, e.Name())
		if isDir(path, e) && !hidden(e) {
			l.scanLevel(path, e.Name(), change, seen, watch)
		}
	}
	l.readFiles(l.root, "", entries, change, seen)
	for path := range l.files {
		if _, ok := seen[path]; !ok {
			delete(l.files, path)
			l.dirty = true
		}
	}
	l.dirty = l.dirty || !l.read
	l.read = true
	return nil
}

// open opens the root for one scan and lists it.
func (l *dirLoader) open() (entries []fs.DirEntry, err error) {
	if l.dir, err = os.OpenRoot(l.root); err != nil {
		return nil, err
	}
	if entries, err = l.list("."); err != nil {
		_ = l.dir.Close() // the caller returns the first error
	}
	return entries, err
}

// list lists a directory in the root, in the order of names.
func (l *dirLoader) list(name string) ([]fs.DirEntry, error) {
	f, err := l.dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// errOutside is the error for a link that [os.Root] does not follow.
var errOutside = errors.New("the symbolic link is absolute or points outside the directory: expected a relative link to a file in it")

// linkError replaces err by a clear reason if os.Root does not follow a link; it has no exported
// error for that.
func linkError(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok || err == nil {
		return err
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok && !errors.Is(p.Err, fs.ErrClosed) {
		return errOutside
	}
	return err
}

// scanLevel reads the sub-directory of one key. If the sub-directory cannot be listed, all its
// files keep their state.
func (l *dirLoader) scanLevel(path, name string, change dirChange, seen map[string]struct{}, watch func(string)) {
	if err := checkDirName(name); err != nil {
		l.problem(path, "", reasonName, fmt.Errorf("%s: this directory name is not valid for a key: %w", path, err), seen)
		return
	}
	watch(path)
	entries, err := l.list(name)
	if err == nil {
		l.readFiles(path, name, entries, change, seen)
		return
	}
	l.problem(path, name, reasonRead, fmt.Errorf("%s: cannot be listed: %w", path, linkError(err)), seen)
	for p, f := range l.files {
		if f.level == name {
			seen[p] = struct{}{}
		}
	}
}

// problem records a problem of a sub-directory as if it were a bad file.
func (l *dirLoader) problem(path, level string, reason dirReason, err error, seen map[string]struct{}) {
	seen[path] = struct{}{}
	f := l.file(path, level)
	if reason == reasonName {
		f.initial = false // no key has this directory
	}
	l.fail(f, reason, err)
}

// file returns the record of a path and creates it on first use.
func (l *dirLoader) file(path, level string) *dirFile {
	f := l.files[path]
	if f == nil {
		f = &dirFile{path: path, level: level, initial: !l.read}
		if dir := l.files[filepath.Dir(path)]; dir != nil {
			f.initial = f.initial || dir.initial // the directory of the file could not be listed before
		}
		l.files[path] = f
		l.dirty = true
	}
	return f
}

// fail records that f is invalid.
func (l *dirLoader) fail(f *dirFile, reason dirReason, err error) {
	if f.broken != nil && f.broken.Error() == err.Error() {
		return
	}
	f.info, f.stable, f.sum = nil, false, [sha256.Size]byte{}
	f.parsed, f.broken, f.reason, f.holds = nil, err, reason, nil
	f.changed, l.dirty = true, true
}

func (l *dirLoader) readFiles(dir, level string, entries []fs.DirEntry, change dirChange, seen map[string]struct{}) {
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		format := formatOf(path)
		if format == nil || hidden(e) || isDir(path, e) {
			continue
		}
		if l.readFile(path, level, format, e, change.covers(path)) {
			seen[path] = struct{}{}
		}
	}
}

// readFile reads one file if it changed. It returns false if the file no longer exists.
func (l *dirLoader) readFile(path, level string, format *dirFormat, e fs.DirEntry, changed bool) bool {
	name := filepath.Join(level, filepath.Base(path))
	info, err := l.dir.Stat(name)
	if err == nil {
		if f := l.files[path]; f != nil && f.stable && !changed && sameFile(f.info, info) {
			return true
		}
		err = checkRegular(info)
	}
	var b []byte
	if err == nil {
		b, err = l.dir.ReadFile(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink == 0:
		return false
	case errors.Is(err, fs.ErrNotExist): // in the middle of a swap, or a mistake: not a removal
		l.fail(l.file(path, level), reasonRead, fmt.Errorf("%s: the symbolic link is broken", path))
		return true
	case err != nil:
		l.fail(l.file(path, level), reasonRead, fmt.Errorf("%s: cannot be read: %w", path, linkError(err)))
		return true
	}
	f, sum := l.file(path, level), sha256.Sum256(b)
	if f.info == nil || f.sum != sum {
		f.sum = sum
		f.parsed, f.broken = format.parse(path, b)
		f.reason, f.holds = reasonParse, nil
		if f.broken != nil {
			f.holds = typesIn(b)
		}
		f.changed, l.dirty = true, true
	}
	f.info, f.stable = info, time.Since(info.ModTime()) > racyMtime
	return true
}

func checkRegular(info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("it is %s, expected a regular file", info.Mode().Type())
	case info.Size() > maxDirFile:
		return fmt.Errorf("it has %d bytes, expected at most %d", info.Size(), maxDirFile)
	}
	return nil
}

// sameFile reports whether two readings of a path found the same unchanged file.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// hidden excludes files that editors and atomic writers create next to a file, and the directories
// behind a mounted ConfigMap.
func hidden(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }

// isDir reports whether an entry is a directory or a symbolic link to one.
func isDir(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
