package lastgood

import (
	"context"
	"errors"
	"time"
)

// Store is where sealed records are: a [Directory], or [Redis]. All methods are safe
// for concurrent use.
//
// A record that Save was given may be there although Save failed. Whoever reads has
// to expect anything: records of others, old ones, and what was never one.
type Store interface {
	// Save puts a record in the place of the one before of the key and the type,
	// wholly or not at all; nil puts none there. mark is what Marks tells of it.
	Save(ctx context.Context, key, url, mark string, sealed []byte) error
	// Marks are those of the records of a key, by type URL.
	Marks(ctx context.Context, key string) (map[string]Mark, error)
	// Load calls take with the records of a key.
	Load(ctx context.Context, key string, take func(sealed []byte)) error
}

// Mark is what is told of a record without reading it.
type Mark struct {
	// Text is what Save was given, and At when that was.
	Text string
	At   time.Time
}

// errFenced is the error of a Save by a node that does not own the key any more.
var errFenced = errors.New("another node has taken the key over")

// errUnclaimed is the error of a Save before the key is claimed in Redis.
var errUnclaimed = errors.New("the key is not claimed yet")

// keptFor is how long a record counts that nobody has written again.
const keptFor = 30 * 24 * time.Hour
