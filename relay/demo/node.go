package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
)

// node is the relay under demonstration, and what it says of itself.
type node struct {
	// Fixed after construction.
	addr, admin string
	end         context.CancelFunc
	ended       chan error // gets what Run returned, once
	client      *http.Client
	log         *notes

	// Owned by the loop.
	failed  error
	totals  totals
	scraped time.Time

	mu sync.Mutex
	// Guarded by mu.
	stored map[change][]time.Time // when changes were stored, in order
}

// change is a type of a key.
type change struct{ key, typeURL string }

// totals are the relay's own counters.
type totals struct{ responses, bytes, built, acks, nacks uint64 }

// startNode runs a relay the way `xdsrelay run --upstream DIR` does, with a configuration besides, which may
// be nil.
func startNode(cfg Config, dir string, data []byte) (*node, error) {
	flags := []config.Flag{
		{Name: "--dir", Field: "upstream.directory", Value: dir},
		{Name: "--listen", Field: "listener.address", Value: cfg.Listen},
		{Name: "--admin", Field: "admin.address", Value: cfg.Admin},
		{Name: "drain", Field: "drain.duration", Value: "0s"}, // the clients end before the relay
		{Name: "drain", Field: "drain.grace", Value: "2s"},
	}
	c, err := config.Load(config.Input{Data: data, Flags: flags})
	if err != nil {
		return nil, err
	}
	n := &node{ended: make(chan error, 1), log: &notes{}, stored: make(map[change][]time.Time)}
	r, err := relay.New(c, relay.Options{Version: cfg.Version, Logger: slog.New(n.log), Changed: n.noteChange})
	if err != nil {
		return nil, err
	}
	n.addr, n.admin = r.Addr(), r.AdminAddr()
	n.client = &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}
	var ctx context.Context
	ctx, n.end = context.WithCancel(context.Background())
	go func() { n.ended <- r.Run(ctx) }()
	return n, nil
}

// stop ends the relay.
func (n *node) stop() error {
	n.client.CloseIdleConnections()
	n.end()
	if n.failed == nil {
		return <-n.ended
	}
	return nil // it has exited, and that was told
}

// noteChange is called by the relay once it has stored something.
func (n *node) noteChange(key, typeURL string) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	c := change{key, typeURL}
	n.stored[c] = append(n.stored[c], now)
}

// storedSince returns when the relay first stored something after at.
func (n *node) storedSince(c change, at time.Time) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.stored[c] {
		if !t.Before(at) {
			return t, true
		}
	}
	return time.Time{}, false
}

// forgetBefore drops what is too old to be asked for.
func (n *node) forgetBefore(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, times := range n.stored {
		for len(times) > 0 && times[0].Before(at) {
			times = times[1:]
		}
		n.stored[c] = times
	}
}

// scrape reads the relay's metrics, as any monitoring would. What cannot be
// read stays as it was.
func (n *node) scrape() {
	n.scraped = time.Now()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+n.admin+"/metrics", nil)
	if err != nil {
		return
	}
	response, err := n.client.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	if t, err := readTotals(response.Body); err == nil {
		n.totals = t
	}
}

// readTotals adds up the counters in metrics of the Prometheus text format.
func readTotals(r io.Reader) (t totals, err error) {
	for lines := bufio.NewScanner(r); ; {
		if !lines.Scan() {
			return t, lines.Err()
		}
		text := lines.Text()
		end := strings.LastIndexByte(text, ' ')
		if end < 0 || text[0] == '#' {
			continue
		}
		f, err := strconv.ParseFloat(text[end+1:], 64)
		if err != nil {
			return t, fmt.Errorf("metrics: %w", err)
		}
		v := uint64(f)
		switch name, labels, _ := strings.Cut(text[:end], "{"); {
		case name == "xdsrelay_downstream_responses_total":
			t.responses += v
		case name == "xdsrelay_downstream_sent_bytes_total":
			t.bytes += v
		case name == "xdsrelay_downstream_bodies_built_total":
			t.built += v
		case name == "xdsrelay_downstream_acknowledgments_total" && strings.Contains(labels, `outcome="ack"`):
			t.acks += v
		case name == "xdsrelay_downstream_acknowledgments_total" && strings.Contains(labels, `outcome="nack"`):
			t.nacks += v
		}
	}
}

// notes keeps the relay's warnings, each kind once, to be shown.
type notes struct {
	mu sync.Mutex
	// Guarded by mu.
	seen map[string]struct{}
	news []string
}

// Enabled implements [slog.Handler].
func (n *notes) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements [slog.Handler].
func (n *notes) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "error", "message", "reason": // the rest is one of many, or said in it
			value, _, _ := strings.Cut(a.Value.String(), "\n")
			text += ": " + value
		}
		return true
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, dup := n.seen[text]; !dup {
		if n.seen == nil || len(n.seen) > 1000 {
			n.seen = make(map[string]struct{})
		}
		n.seen[text] = struct{}{}
		n.news = append(n.news, text)
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (n *notes) WithAttrs([]slog.Attr) slog.Handler { return n }

// WithGroup implements [slog.Handler].
func (n *notes) WithGroup(string) slog.Handler { return n }

// take returns what is new.
func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	news := n.news
	n.news = nil
	return news
}
