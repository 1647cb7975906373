package lease_test

import (
	"bytes"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"xdsrelay/shard"
	"xdsrelay/shard/lease"
	"xdsrelay/shard/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience is how long an operation may take that takes moments on an idle machine.
	patience = time.Minute
	// long is a lease that ends in no test.
	long = 5 * time.Minute
)

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

// node is a member with its own connections to Redis.
type node struct {
	*lease.Members
	t     *testing.T
	store *store.Store
	log   *log
}

// join makes a node a member that others see. calls is how long a call may take.
func join(t *testing.T, url string, self shard.Member, term, calls time.Duration) *node {
	t.Helper()
	n := prepare(t, url, lease.Config{Self: self, Lease: term}, calls)
	n.Enter()
	return n
}

// prepare makes a node a member that has not entered.
func prepare(t *testing.T, url string, cfg lease.Config, calls time.Duration) *node {
	t.Helper()
	return prepareIn(t, "test", url, cfg, calls)
}

// prepareIn is prepare in the tier of a prefix.
func prepareIn(t *testing.T, prefix, url string, cfg lease.Config, calls time.Duration) *node {
	t.Helper()
	n := &node{t: t, log: &log{}}
	logger := slog.New(slog.NewTextHandler(n.log, nil))
	var err error
	if n.store, err = store.New(store.Config{URL: url, Prefix: prefix, Timeout: calls, Logger: logger, Meter: noop.Meter{}}); err != nil {
		t.Fatal(err)
	}
	if cfg.Self.Peer == "" {
		cfg.Self.Peer = cfg.Self.Name + ":1"
	}
	cfg.Store, cfg.Logger = n.store, logger
	if n.Members, err = lease.Join(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Close()
		if err := n.store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", n.Self().Name, n.log)
		}
	})
	return n
}

// sees waits until the view of the node has these members.
func (n *node) sees(names ...string) {
	n.t.Helper()
	for began := time.Now(); ; {
		changed := n.Changed()
		var got []string
		for _, m := range n.View().Members() {
			got = append(got, m.Name)
		}
		if slices.Equal(got, names) {
			return
		}
		select {
		case <-changed:
		case <-time.After(patience - time.Since(began)):
			n.t.Fatalf("%s sees %v after %v, expected %v", n.Self().Name, got, patience, names)
		}
	}
}

// watch fails the test if a member ever disappears from the view of the node until stop is called.
func (n *node) watch(names ...string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			changed := n.Changed()
			for _, name := range names {
				if !slices.ContainsFunc(n.View().Members(), func(m shard.Member) bool { return m.Name == name }) {
					n.t.Errorf("%s no longer sees %s", n.Self().Name, name)
					return
				}
			}
			select {
			case <-changed:
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// member returns another member from the view of the node.
func (n *node) member(name string) shard.Member {
	for _, m := range n.View().Members() {
		if m.Name == name {
			return m
		}
	}
	return shard.Member{}
}

// log is the log of a node.
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
