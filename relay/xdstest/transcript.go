package xdstest

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// transcript is what was said so far, for the message of a failing test. It
// keeps the last lines only.
type transcript struct {
	who   string    // fixed
	start time.Time // fixed
	max   int       // fixed

	mu      sync.Mutex
	lines   []string // guarded by mu
	dropped int      // guarded by mu
}

func newTranscript(who string, lines int) *transcript {
	return &transcript{who: who, start: time.Now(), max: lines}
}

func (t *transcript) add(format string, args ...any) {
	line := fmt.Sprintf("%8.1fms  ", float64(time.Since(t.start).Microseconds())/1000) + fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == t.max {
		// Halving instead of shifting keeps adding a line cheap.
		drop := (t.max + 1) / 2
		t.lines = append(t.lines[:0], t.lines[drop:]...)
		t.dropped += drop
	}
	t.lines = append(t.lines, line)
}

// String is the conversation, ready to be appended to a message.
func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "\nconversation of %s:\n", t.who)
	if t.dropped > 0 {
		fmt.Fprintf(&b, "    … %d earlier lines …\n", t.dropped)
	}
	if len(t.lines) == 0 {
		b.WriteString("    (nothing was said)\n")
	}
	for _, l := range t.lines {
		b.WriteString("    " + l + "\n")
	}
	return b.String()
}

// brief shortens a list of names for a line of a transcript.
func brief(names []string) string {
	const most = 12
	if len(names) <= most {
		return "[" + strings.Join(names, " ") + "]"
	}
	return fmt.Sprintf("[%s … %d names]", strings.Join(names[:most], " "), len(names))
}
