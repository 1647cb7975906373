package store_test

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"xdsrelay/shard/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long an operation may take that takes moments on an idle machine.
const patience = time.Minute

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for began := time.Now(); !cond(); {
		if time.Since(began) > patience {
			t.Fatalf("waited %v for %s, in vain", patience, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// log is the log of a store.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *log) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte(s))
}

// open creates a store for a URL. The timeout of its calls is so long that none fails on a slow
// machine.
func open(t *testing.T, url string, change ...func(*store.Config)) (*store.Store, *log) {
	t.Helper()
	l := &log{}
	cfg := store.Config{URL: url, Prefix: "test", Timeout: patience, Logger: slog.New(slog.NewTextHandler(l, nil)), Meter: noop.Meter{}}
	for _, f := range change {
		f(&cfg)
	}
	s, err := store.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s, l
}
