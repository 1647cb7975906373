package lastgood

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// Disk is the file system of a [Directory]. nil means that of the operating system; tests in
// virtual time have one that can be full and lose writes.
type Disk interface {
	MkdirAll(path string, mode fs.FileMode) error
	ReadDir(path string) ([]fs.DirEntry, error)
	Stat(path string) (fs.FileInfo, error)
	Open(path string) (io.ReadCloser, error)
	// CreateTemp creates a file that only its owner can read; see [os.CreateTemp].
	CreateTemp(dir, pattern string) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir flushes the names in a directory to disk.
	SyncDir(path string) error
}

// File is a file that is being written.
type File interface {
	io.WriteCloser
	Name() string
	// Sync flushes what was written to disk.
	Sync() error
}

// system is the file system of the operating system.
type system struct{}

func (system) MkdirAll(path string, mode fs.FileMode) error { return os.MkdirAll(path, mode) }
func (system) ReadDir(path string) ([]fs.DirEntry, error)   { return os.ReadDir(path) }
func (system) Stat(path string) (fs.FileInfo, error)        { return os.Stat(path) }
func (system) Open(path string) (io.ReadCloser, error)      { return os.Open(path) }
func (system) Rename(from, to string) error                 { return os.Rename(from, to) }
func (system) Remove(path string) error                     { return os.Remove(path) }

func (system) CreateTemp(dir, pattern string) (File, error) { return os.CreateTemp(dir, pattern) }

func (system) SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
