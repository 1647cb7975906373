package lastgood

import (
	"context"
	"errors"
	"time"
)

// Store is where sealed records are stored: a [Directory], or [Redis]. All methods are safe for
// concurrent use.
//
// A record may be stored although Save returned an error. A reader must expect anything: records of
// others, old ones, and arbitrary bytes.
type Store interface {
	// Save atomically replaces the record of the key and the type; nil removes it. Marks returns
	// mark for it.
	Save(ctx context.Context, key, url, mark string, sealed []byte) error
	// Marks returns the marks of the records of a key, by type URL.
	Marks(ctx context.Context, key string) (map[string]Mark, error)
	// Load calls take with each record of a key.
	Load(ctx context.Context, key string, take func(sealed []byte)) error
}

// Mark describes a record without reading it.
type Mark struct {
	// Text is the mark that was passed to Save, and At when that was.
	Text string
	At   time.Time
}

// errFenced is the error of a Save by a node that does not own the key any more.
var errFenced = errors.New("another node took over the key")

// errUnclaimed is the error of a Save before the key is claimed in Redis.
var errUnclaimed = errors.New("the key is not claimed yet")

// keptFor is how long a record is valid after it was written.
const keptFor = 30 * 24 * time.Hour
