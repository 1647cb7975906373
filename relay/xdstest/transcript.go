package xdstest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdsclient"
)

// Transcript is what was said so far, for the message of a failing test. It
// keeps the last lines only. All methods may be called from any goroutine.
type Transcript struct {
	who   string    // fixed
	start time.Time // fixed
	max   int       // fixed

	mu      sync.Mutex
	lines   []string    // guarded by mu
	dropped int         // guarded by mu
	into    *Transcript // guarded by mu; not nil once lines go there instead
	as      string      // guarded by mu; how they are marked there
}

// NewTranscript makes an empty transcript that keeps so many lines. who
// completes the heading "conversation of …".
func NewTranscript(who string, lines int) *Transcript {
	return &Transcript{who: who, start: time.Now(), max: lines}
}

// share lets lines go into another transcript from now on, marked with a name.
func (t *Transcript) share(into *Transcript, as string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.into, t.as = into, as
}

// shared is where lines go instead; nil if they stay here.
func (t *Transcript) shared() (into *Transcript, as string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.into, t.as
}

// Addf adds a line, with the time since the transcript began.
func (t *Transcript) Addf(format string, args ...any) { t.add(format, args...) }

func (t *Transcript) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if into, as := t.shared(); into != nil {
		into.add("%-8s %s", as, text)
		return
	}
	line := fmt.Sprintf("%8.1fms  ", float64(time.Since(t.start).Microseconds())/1000) + text
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
func (t *Transcript) String() string {
	if into, _ := t.shared(); into != nil {
		return into.String()
	}
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

// lineOf describes any message for a transcript.
func lineOf(m proto.Message) string {
	switch m.(type) {
	case *discoveryv3.DiscoveryRequest, *discoveryv3.DeltaDiscoveryRequest:
		return xdsclient.RequestOf(m).String()
	case *discoveryv3.DiscoveryResponse, *discoveryv3.DeltaDiscoveryResponse:
		f, err := FrameOf(m)
		if err != nil {
			return err.Error()
		}
		return f.String()
	default:
		return fmt.Sprintf("%T", m)
	}
}
