package upstream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"xdsrelay/relay/resource"
)

// logbook collects log lines.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logbook) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSpace(b.buf.String()), "\n")
}

// TestManyKeysWithoutOrigin: a thousand keys of a control plane that fails cost a bounded number of
// goroutines and log lines and nearly no connections, and all reconnect when it is back.
func TestManyKeysWithoutOrigin(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		const keys = 1000
		before := runtime.NumGoroutine()
		o := memory.NewStateOrigin(t, nil)
		o.Set("", cluster("a", 1))
		n := memory.NewNetwork(t, o.Addr())
		var book logbook
		cfg := fast(delta, n.Addr())
		cfg.Logger = slog.New(slog.NewTextHandler(&book, nil))
		r := newRig(t, cfg)
		clients := make([]*client, keys)
		for i := range clients {
			clients[i] = r.join(fmt.Sprintf("key-%d", i)).want(cds, "*")
		}
		all := func(connected bool) {
			t.Helper()
			for _, c := range clients {
				c.waitUpstream(connected)
			}
		}
		all(true)
		up := len(book.lines())
		n.Refuse()
		n.Cut()
		all(false)
		_, tried := n.Connections()
		time.Sleep(2 * time.Second) //nolint:forbidigo // the outage is what is looked at
		if got := runtime.NumGoroutine() - before; got > 2*keys+100 {
			t.Errorf("%d goroutines for %d keys", got, keys)
		}
		if got := book.lines(); len(got) > up+10 {
			t.Errorf("%d lines of log:\n%s", len(got), strings.Join(got, "\n"))
		}
		if err := n.Accept(); err != nil {
			t.Fatal(err)
		}
		all(true)
		text := strings.Join(book.lines(), "\n")
		for _, want := range []string{"connected to", "no stream to", "is back"} {
			if strings.Count(text, want) != 1 {
				t.Errorf("expected one line with %q:\n%s", want, text)
			}
		}
		if !strings.Contains(text, "connection refused") {
			t.Errorf("no line says why:\n%s", text)
		}
		if _, now := n.Connections(); now != tried+1 {
			t.Errorf("%d connections for the return, expected one for all keys", now-tried)
		}
		for _, c := range clients {
			c.waitState(cds, "a")
		}
	})
}

// TestRation: the number of log lines is bounded whatever happens, and dropped lines are counted.
func TestRation(t *testing.T) {
	start := time.Now()
	r := ration{most: 6, tokens: 6, filled: start}
	written, left := 0, 0
	for i := range 60_000 { // one per millisecond
		if ok, skipped := r.take(start.Add(time.Duration(i) * time.Millisecond)); ok {
			written++
			left += skipped
		}
	}
	if written > 12 || written < 6 {
		t.Fatalf("%d lines in a minute", written)
	}
	if left+r.skipped+written != 60_000 {
		t.Fatalf("%d lines unaccounted for", 60_000-left-r.skipped-written)
	}
}

// TestJournal: one line per change of state, and reminders at growing intervals.
func TestJournal(t *testing.T) {
	var book logbook
	j := newJournal(slog.New(slog.NewTextHandler(&book, nil)), "control plane")
	j.connected()
	j.connected()
	j.disconnected()
	j.failed(fmt.Errorf("one of two"), true, 2)
	j.disconnected()
	j.failed(fmt.Errorf("the last"), true, 2)
	for range 1000 {
		j.failed(fmt.Errorf("again"), false, 2)
	}
	j.connected()
	got := book.lines()
	for i, want := range []string{"connected to", "others are up", "no stream to", "cannot connect", "is back"} {
		if i >= len(got) || !strings.Contains(got[i], want) {
			t.Fatalf("line %d should say %q:\n%s", i, want, strings.Join(got, "\n"))
		}
	}
	if len(got) != 5 || !strings.Contains(got[4], "failures=1001") {
		t.Fatalf("the log:\n%s", strings.Join(got, "\n"))
	}
}

// TestMetrics: by type URL, variant and outcome, with one label for all unknown types.
func TestMetrics(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		reader := metric.NewManualReader()
		meters := metric.NewMeterProvider(metric.WithReader(reader))
		o := memory.NewOrigin(t)
		cfg := fast(delta, o.Addr())
		cfg.Meter = meters.Meter("test")
		r := newRig(t, cfg)
		r.join("k").want(cds, "a").want("type.googleapis.com/google.protobuf.StringValue", "x")
		st := o.NextStream(t)
		st.NextRequest(t)
		st.NextRequest(t)
		st.Respond(t, cds, "1", cluster("a", 1))
		st.NextRequest(t)
		st.Respond(t, "type.googleapis.com/google.protobuf.StringValue", "1")
		st.NextRequest(t)
		st.Respond(t, eds, "1")
		st.Close(nil)
		o.NextStream(t).NextRequest(t)

		var got metricdata.ResourceMetrics
		if err := reader.Collect(context.Background(), &got); err != nil {
			t.Fatal(err)
		}
		sums := make(map[string]int64)
		for _, m := range got.ScopeMetrics[0].Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok {
				continue // the age of the last response
			}
			for _, p := range sum.DataPoints {
				typ, _ := p.Attributes.Value("type")
				outcome, _ := p.Attributes.Value("outcome")
				variant, ok := p.Attributes.Value("variant")
				if !ok || variant.AsString() != either(delta, "delta", "sotw") {
					t.Errorf("%s has variant %q", m.Name, variant.AsString())
				}
				sums[strings.TrimSpace(m.Name+" "+typ.AsString()+" "+outcome.AsString())] += p.Value
			}
		}
		for name, want := range map[string]int64{
			"xdsrelay.upstream.responses " + resource.TypeLabel(cds) + " ack":         1,
			"xdsrelay.upstream.responses other ack":                                   1,
			"xdsrelay.upstream.responses " + resource.TypeLabel(eds) + " unrequested": 1,
			"xdsrelay.upstream.streams":                                               0,
			"xdsrelay.upstream.reconnects":                                            1,
		} {
			if sums[name] != want {
				t.Errorf("%s is %d, expected %d; all: %v", name, sums[name], want, sums)
			}
		}
		if sums["xdsrelay.upstream.received "+resource.TypeLabel(cds)+" ack"] == 0 {
			t.Errorf("no bytes counted: %v", sums)
		}
	})
}
