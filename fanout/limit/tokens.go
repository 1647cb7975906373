package limit

import "time"

// Tokens limits the requests of one stream: a rate per second after a burst. It has eight bytes,
// since each stream has one. The zero Tokens has a full burst. It is not safe for concurrent use.
type Tokens struct {
	// paid is when the tokens taken so far would be earned at the rate, in ns since 1970. The burst
	// is how far paid may be ahead of the clock.
	paid int64
}

// RequestBytes: each so many bytes of a request cost one more token.
const RequestBytes = 64 << 10

// Cost returns the tokens for a request of the given bytes.
func Cost(bytes int) int { return 1 + bytes/RequestBytes }

// NameBytes: each so many bytes of memory for new names cost one token.
const NameBytes = 16 << 10

// NameCost returns the tokens for new names that need the given bytes of memory.
func NameCost(bytes int) int { return bytes / NameBytes }

// Take takes n tokens and returns how long to wait before the next Take. perSecond 0 means
// unlimited.
func (t *Tokens) Take(now time.Time, n, perSecond, burst int) (wait time.Duration) {
	if perSecond <= 0 {
		return 0
	}
	each := int64(time.Second) / int64(perSecond)
	at := now.UnixNano()
	t.paid = max(t.paid, at) + int64(n)*each
	return max(time.Duration(t.paid-at-int64(burst)*each), 0)
}
