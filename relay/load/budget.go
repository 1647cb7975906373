package load

import "sync/atomic"

// budget is what the sums of all keys may hold together, beyond a little that each key
// may hold in any case. All methods are safe for concurrent use.
type budget struct {
	most int64 // fixed; in bytes
	used atomic.Int64
}

const (
	// reserve is what a key may hold in any case, in bytes: about as much as the key
	// itself takes, and enough for some dozen clusters.
	reserve = 32 << 10
	// share bounds what one key may hold beyond that to this part of what is still free,
	// so that one key alone does not use it up.
	share = 4
)

// resize books that a key holds another number of bytes, and reports whether it may.
// It always may hold less.
func (b *budget) resize(from, to int64) bool {
	before, after := max(from-reserve, 0), max(to-reserve, 0)
	used := b.used.Add(after - before)
	if after > before && after > (b.most-used+after-before)/share {
		b.used.Add(before - after)
		return false
	}
	return true
}
