package authz

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"xdsrelay/relay/events"
)

// Bounds of the log of rejections, for any number of clients.
const (
	maxLogged    = 4096      // clients remembered as logged
	logAgain     = time.Hour // after this, a client is logged again
	logWindow    = time.Minute
	maxPerWindow = 60 // lines per window
	eventPause   = 10 * time.Minute
)

// refusalLog logs each rejected client once per rule and reason.
type refusalLog struct {
	log *slog.Logger // fixed after construction

	mu sync.Mutex
	// Guarded by mu.
	logged *simplelru.LRU[logKey, time.Time] // when a client was last logged
	window time.Time                         // when the window began
	lines  int                               // lines in the window
	left   int                               // lines suppressed since the last line
	event  time.Time                         // when a line was an event
}

// logKey identifies a line. who is the client's identity, or the host that it connects from: its
// Node id may change with each attempt.
type logKey struct{ who, rule, reason string }

func (l *refusalLog) init(log *slog.Logger) (err error) {
	l.log = log
	l.logged, err = simplelru.NewLRU[logKey, time.Time](maxLogged, nil)
	return err
}

func (l *refusalLog) refused(now time.Time, rule, reason, nodeID string, c Client, err error) {
	if left, event, ok := l.due(now, logKey{whoIs(c), rule, reason}); ok {
		attrs := []slog.Attr{
			slog.String("peer", c.Address), slog.String("identity", c.Identity()), slog.String("listener", c.Listener),
			slog.String("node", shorten(nodeID)), slog.String("rule", rule), slog.String("reason", err.Error()),
		}
		if left > 0 {
			attrs = append(attrs, slog.Int("left_out", left))
		}
		if event {
			attrs = append(attrs, slog.Any(events.Key, events.ClientsUnauthorized))
		}
		l.log.LogAttrs(context.Background(), slog.LevelWarn, "client not authorized", attrs...)
	}
}

// due reports whether to write a line, whether it is an event, and how many lines were suppressed since
// the last one.
func (l *refusalLog) due(now time.Time, k logKey) (left int, event, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, known := l.logged.Get(k); known && now.Sub(at) < logAgain {
		return 0, false, false
	}
	if now.Sub(l.window) >= logWindow {
		l.window, l.lines = now, 0
	}
	if l.lines >= maxPerWindow {
		l.left++
		return 0, false, false // not remembered: it is logged once there is room
	}
	l.lines++
	l.logged.Add(k, now)
	left, l.left = l.left, 0
	if event = l.event.IsZero() || now.Sub(l.event) >= eventPause; event {
		l.event = now
	}
	return left, event, true
}

// whoIs returns the client's identity, or else the host that it connects from.
func whoIs(c Client) string {
	if id := c.Identity(); id != "" {
		return id
	}
	if host, _, err := net.SplitHostPort(c.Address); err == nil {
		return host
	}
	return c.Address
}

// maxNodeID bounds the part of a node id in a line, in bytes.
const maxNodeID = 200

func shorten(id string) string {
	if len(id) > maxNodeID {
		return strings.ToValidUTF8(id[:maxNodeID], "") + "…"
	}
	return id
}
