package scenario

import (
	"bytes"
	"strings"
	"sync"
)

// tailSize is how much of a log is kept, for messages.
const tailSize = 2 << 10

// logCount counts what processes log. It is a writer that takes everything, for
// any number of goroutines.
type logCount struct {
	mu sync.Mutex
	// Guarded by mu.
	lines, bytes int
	tail         []byte
}

// Write counts.
func (l *logCount) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines += bytes.Count(b, []byte("\n"))
	l.bytes += len(b)
	l.tail = append(l.tail, b...)
	if len(l.tail) > 2*tailSize {
		l.tail = bytes.Clone(l.tail[len(l.tail)-tailSize:])
	}
	return len(b), nil
}

// counts returns how many lines and bytes there were.
func (l *logCount) counts() (lines, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines, l.bytes
}

// last returns the last whole lines.
func (l *logCount) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.tail[max(0, len(l.tail)-tailSize):])
	if len(text) < len(l.tail) || l.bytes > len(l.tail) {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(text)
}
