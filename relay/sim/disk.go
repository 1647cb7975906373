package sim

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"xdsrelay/shard/lastgood"
)

// disk is that of a machine. What was not synced is lost with the power, and what was is
// lost as well while the disk lies. It can be full.
type disk struct {
	mu sync.Mutex
	// Guarded by mu.
	now     map[string]*content // by path
	durable map[string]*content // after a loss of power
	full    int                 // how many events make it so
	lies    int
	boots   int
	temps   int
}

// content is what a file holds.
type content struct {
	data   []byte
	synced int // how much of it was synced
	at     time.Time
}

func newDisk() *disk {
	return &disk{now: make(map[string]*content), durable: make(map[string]*content)}
}

// boot is the disk for a machine that has just started; nobody writes by an earlier one
// any more. Without power before, it has lost what was not durable.
func (d *disk) boot(lost bool) lastgood.Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boots++
	if lost {
		d.now = maps.Clone(d.durable)
	}
	return &mount{disk: d, boot: d.boots}
}

// change changes how the disk is.
func (d *disk) change(f func(*disk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

// mount is a disk as one boot of its machine has it. It implements lastgood.Disk.
type mount struct {
	disk *disk
	boot int
}

// lock takes the disk, which is gone for a machine that has ended.
func (m *mount) lock(op, path string) error {
	m.disk.mu.Lock()
	if m.boot != m.disk.boots {
		m.disk.mu.Unlock()
		return wrong(op, path, syscall.EIO)
	}
	return nil
}

func wrong(op, path string, err error) error { return &fs.PathError{Op: op, Path: path, Err: err} }

func (m *mount) MkdirAll(path string, _ fs.FileMode) error {
	if err := m.lock("mkdir", path); err != nil {
		return err
	}
	defer m.disk.mu.Unlock()
	return nil
}

func (m *mount) ReadDir(path string) (all []fs.DirEntry, err error) {
	if err := m.lock("open", path); err != nil {
		return nil, err
	}
	defer m.disk.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.disk.now)) {
		if filepath.Dir(name) == path {
			all = append(all, fs.FileInfoToDirEntry(info{filepath.Base(name), *m.disk.now[name]}))
		}
	}
	return all, nil
}

// find is a file; the disk is locked if there is no error.
func (m *mount) find(op, path string) (*content, error) {
	if err := m.lock(op, path); err != nil {
		return nil, err
	}
	c := m.disk.now[path]
	if c == nil {
		m.disk.mu.Unlock()
		return nil, wrong(op, path, fs.ErrNotExist)
	}
	return c, nil
}

func (m *mount) Stat(path string) (fs.FileInfo, error) {
	c, err := m.find("stat", path)
	if err != nil {
		return nil, err
	}
	defer m.disk.mu.Unlock()
	return info{filepath.Base(path), *c}, nil
}

func (m *mount) Open(path string) (io.ReadCloser, error) {
	c, err := m.find("open", path)
	if err != nil {
		return nil, err
	}
	defer m.disk.mu.Unlock()
	return io.NopCloser(bytes.NewReader(bytes.Clone(c.data))), nil
}

func (m *mount) CreateTemp(dir, pattern string) (lastgood.File, error) {
	if err := m.lock("open", dir); err != nil {
		return nil, err
	}
	defer m.disk.mu.Unlock()
	if m.disk.full > 0 && m.disk.temps%2 == 0 { // at times there is still room for a name
		m.disk.temps++
		return nil, wrong("open", dir, syscall.ENOSPC)
	}
	m.disk.temps++
	path := filepath.Join(dir, fmt.Sprintf("%s%d", pattern, m.disk.temps))
	m.disk.now[path] = &content{at: time.Now()}
	return &file{mount: m, path: path}, nil
}

func (m *mount) Rename(from, to string) error {
	c, err := m.find("rename", from)
	if err != nil {
		return err
	}
	defer m.disk.mu.Unlock()
	delete(m.disk.now, from)
	m.disk.now[to] = c
	return nil
}

func (m *mount) Remove(path string) error {
	_, err := m.find("remove", path)
	if err != nil {
		return err
	}
	defer m.disk.mu.Unlock()
	delete(m.disk.now, path)
	return nil
}

func (m *mount) SyncDir(path string) error {
	if err := m.lock("sync", path); err != nil {
		return err
	}
	defer m.disk.mu.Unlock()
	if m.disk.lies > 0 {
		return nil
	}
	m.disk.durable = make(map[string]*content, len(m.disk.now))
	for name, c := range m.disk.now {
		m.disk.durable[name] = &content{data: bytes.Clone(c.data[:c.synced]), synced: c.synced, at: c.at}
	}
	return nil
}

// file is one that is being written.
type file struct {
	mount *mount
	path  string
}

func (f *file) Name() string { return f.path }
func (f *file) Close() error { return nil }

func (f *file) Write(b []byte) (int, error) {
	c, err := f.mount.find("write", f.path)
	if err != nil {
		return 0, err
	}
	defer f.mount.disk.mu.Unlock()
	n := len(b)
	if f.mount.disk.full > 0 {
		n /= 2
	}
	c.data = append(c.data, b[:n]...)
	if n < len(b) {
		return n, wrong("write", f.path, syscall.ENOSPC)
	}
	return n, nil
}

func (f *file) Sync() error {
	c, err := f.mount.find("sync", f.path)
	if err != nil {
		return err
	}
	defer f.mount.disk.mu.Unlock()
	if f.mount.disk.lies == 0 {
		c.synced = len(c.data)
	}
	return nil
}

// info describes a file.
type info struct {
	name string
	of   content
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(len(i.of.data)) }
func (i info) Mode() fs.FileMode  { return 0o600 }
func (i info) ModTime() time.Time { return i.of.at }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
