package events_test

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"xdsrelay/relay/events"
)

// TestMemory: a full ring stays within its bytes, about.
func TestMemory(t *testing.T) {
	var r events.Ring
	at := time.Unix(0, 0)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 5000 {
		at = at.Add(2 * time.Second)
		r.Add(events.Event{Kind: events.NodeJoined, Time: at, Node: "node", Text: "Node node-17 joined the tier; a part of the keys moves to it", Attributes: map[string]string{"member": "node-17", "peer": "10.0.0.17:18001", "i": time.Duration(i).String()}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d events in %d KiB", len(r.After(0, time.Time{}).Events), used>>10)
	if used > 1<<20 {
		t.Errorf("%d KiB", used>>10)
	}
}

// BenchmarkLine is a line of the log that is no event, below the level of the log.
func BenchmarkLine(b *testing.B) {
	r := events.New(nil)
	log := slog.New(r.Handler(slog.DiscardHandler))
	b.ReportAllocs()
	for b.Loop() {
		log.LogAttrs(context.Background(), slog.LevelInfo, "a line", slog.String("a", "b"), slog.Int("c", 1))
	}
}
