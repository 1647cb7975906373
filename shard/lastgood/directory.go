package lastgood

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Directory stores records in files of one directory. The file names are made of digests of key and
// type. Only the owner of the files can read them.
type Directory struct {
	// Fixed after construction.
	disk Disk
	path string
	max  int // of a record, in bytes
	log  *slog.Logger

	mu sync.Mutex
	// Guarded by mu.
	files  map[string]map[string]struct{} // names of files, by the part that identifies the key
	marks  map[string]written             // of files that this process has written, by name
	failed string                         // the failure that was logged last; empty if there is none
}

// written is what is known of a file.
type written struct {
	url string
	Mark
}

const (
	recordSuffix = ".good"
	tempPrefix   = ".writing-"
)

var recordForm = regexp.MustCompile(`^[0-9a-f]{40}-[0-9a-f]{24}\.good$`)

// NewDirectory creates a store in a directory, which it creates if necessary. No record is larger
// than limit bytes. It removes partially written files, and records that were not written for 30
// days. It returns an error if the directory cannot be used.
func NewDirectory(path string, limit int, log *slog.Logger) (*Directory, error) {
	return NewDirectoryOn(nil, path, limit, log)
}

// NewDirectoryOn is [NewDirectory] on a disk; nil is that of the operating system.
func NewDirectoryOn(disk Disk, path string, limit int, log *slog.Logger) (*Directory, error) {
	if disk == nil {
		disk = system{}
	}
	if err := disk.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("last known good state: %w", err)
	}
	entries, err := disk.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("last known good state: %w", err)
	}
	d := &Directory{disk: disk, path: path, max: limit, log: log, files: make(map[string]map[string]struct{}), marks: make(map[string]written)}
	foreign := 0
	for _, e := range entries {
		name := e.Name()
		info, err := e.Info()
		switch {
		case err != nil: // it no longer exists
		case strings.HasPrefix(name, tempPrefix), recordForm.MatchString(name) && time.Since(info.ModTime()) > keptFor:
			d.remove(name)
		case name == OrdersFile, name == RolloutsFile:
		case !recordForm.MatchString(name) || !info.Mode().IsRegular():
			foreign++
		default:
			d.addLocked(name) // no other goroutine has d yet
		}
	}
	if foreign > 0 {
		log.Warn("the last known good directory has a file that is not a record; ignoring it", "directory", path, "files", foreign)
	}
	return d, nil
}

func (d *Directory) remove(name string) {
	if err := d.disk.Remove(filepath.Join(d.path, name)); err != nil {
		d.log.Warn("cannot remove an old file of the last known good state", "error", err)
	}
}

func (d *Directory) addLocked(name string) {
	of, _, _ := strings.Cut(name, "-")
	if d.files[of] == nil {
		d.files[of] = make(map[string]struct{})
	}
	d.files[of][name] = struct{}{}
}

// digest returns the first digits hexadecimal digits of the SHA-256 of s.
func digest(s string, digits int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:digits]
}

func keyPart(key string) string { return digest(key, 40) }

func fileName(key, url string) string { return keyPart(key) + "-" + digest(url, 24) + recordSuffix }

// Save implements [Store]. The file is complete, old or new, whenever the program or the machine
// stops.
func (d *Directory) Save(_ context.Context, key, url, text string, sealed []byte) error {
	name := fileName(key, url)
	err := d.write(name, sealed)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.noteLocked(name, url, text, sealed != nil)
		if d.failed != "" {
			d.failed = ""
			d.log.Info("last known good can be written again", "directory", d.path)
		}
	case kind(err) != d.failed:
		d.failed = kind(err)
		d.log.Error("cannot write last known good; clients are still served", "directory", d.path, "error", err)
	}
	return err
}

// noteLocked records that a file was written, or removed.
func (d *Directory) noteLocked(name, url, text string, there bool) {
	if there {
		d.addLocked(name)
		d.marks[name] = written{url, Mark{text, time.Now()}}
		return
	}
	of, _, _ := strings.Cut(name, "-")
	if delete(d.files[of], name); len(d.files[of]) == 0 {
		delete(d.files, of)
	}
	delete(d.marks, name)
}

// kind distinguishes failures that are logged separately.
func kind(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Op + ": " + at.Err.Error()
	}
	return err.Error()
}

func (d *Directory) write(name string, sealed []byte) (err error) {
	if sealed == nil {
		if err := d.disk.Remove(filepath.Join(d.path, name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := d.disk.CreateTemp(d.path, tempPrefix) // readable by its owner only
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.disk.Remove(f.Name())
		}
	}()
	if _, err = f.Write(sealed); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := d.disk.Rename(f.Name(), filepath.Join(d.path, name)); err != nil {
		return err
	}
	return d.disk.SyncDir(d.path)
}

// Marks implements [Store]. It returns the marks of files that this process has written and that
// still exist.
func (d *Directory) Marks(_ context.Context, key string) (map[string]Mark, error) {
	all := make(map[string]Mark)
	for _, name := range d.of(key) {
		d.mu.Lock()
		m, ok := d.marks[name]
		d.mu.Unlock()
		if !ok {
			continue
		}
		if _, err := d.disk.Stat(filepath.Join(d.path, name)); err == nil {
			all[m.url] = m.Mark
		}
	}
	return all, nil
}

// of lists the files of a key.
func (d *Directory) of(key string) (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.files[keyPart(key)] {
		names = append(names, name)
	}
	return names
}

// Load implements [Store].
func (d *Directory) Load(_ context.Context, key string, take func(sealed []byte)) error {
	var errs []error
	for _, name := range d.of(key) {
		sealed, err := d.read(name)
		switch {
		case err == nil:
			take(sealed)
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		d.log.Error("cannot read the last known good state of a key", "error", err)
	}
	return nil // a retry would not help
}

func (d *Directory) read(name string) ([]byte, error) {
	path := filepath.Join(d.path, name)
	f, err := d.disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sealed, err := io.ReadAll(io.LimitReader(f, int64(d.max)+1))
	if err == nil && len(sealed) > d.max {
		err = fmt.Errorf("%s: it is larger than last_known_good.max_size", path)
	}
	return sealed, err
}
