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

// patience is how long something may take that happens at once where nothing else
// runs.
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

// log is what a store has logged.
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

// open makes a store for a URL. Its calls have so much time that none fails for a
// slow machine.
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
