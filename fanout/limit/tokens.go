package limit

import "time"

// Tokens paces what one stream asks for: so many requests per second, after a burst of
// them. It is eight bytes, since each stream has one. The zero Tokens has a full burst.
// It is not safe for concurrent use.
type Tokens struct {
	// paid is when what was taken would be paid for at the rate, in ns since 1970: the
	// burst is how far that may be ahead of the clock.
	paid int64
}

// RequestBytes of a request count as a further one.
const RequestBytes = 64 << 10

// Cost is what a request of so many bytes takes.
func Cost(bytes int) int { return 1 + bytes/RequestBytes }

// NameBytes of memory that new names take count as a request.
const NameBytes = 16 << 10

// NameCost is what new names take that need so many bytes of memory.
func NameCost(bytes int) int { return bytes / NameBytes }

// Take takes n tokens and tells how long to wait until the next may be taken. A rate
// of 0 is any.
func (t *Tokens) Take(now time.Time, n, perSecond, burst int) (wait time.Duration) {
	if perSecond <= 0 {
		return 0
	}
	each := int64(time.Second) / int64(perSecond)
	at := now.UnixNano()
	t.paid = max(t.paid, at) + int64(n)*each
	return max(time.Duration(t.paid-at-int64(burst)*each), 0)
}
