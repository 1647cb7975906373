package xdstest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/pause"
	"xdsrelay/relay/xdsclient"
)

// AutoConfig says how an [Auto] client behaves.
type AutoConfig = xdsclient.Config

// AutoEvent is something that happened to an [Auto] client.
type AutoEvent = xdsclient.Event

// AutoStats counts what a client saw.
type AutoStats = xdsclient.Stats

// Held is a resource as a client holds it.
type Held = xdsclient.Held

// Auto is the automatic client of package xdsclient in a test. Its conversation is
// kept for messages.
type Auto struct {
	*xdsclient.Client
	delta bool        // fixed
	log   *Transcript // fixed
}

// StartAuto starts a client, which connects at once. It ends with the test, which
// fails if server and client kept each other busy. Where the configuration is silent,
// the node is that of Dial, and streams and connections are tried again at the speed
// of tests.
func StartAuto(t TB, cfg AutoConfig) *Auto {
	t.Helper()
	if cfg.Node == nil {
		cfg.Node = Node("test-client", "test-cluster")
	}
	a := &Auto{delta: cfg.Variant.Delta, log: NewTranscript(fmt.Sprintf("client %q (%s)", cfg.Node.GetId(), cfg.Variant), 60)}
	cfg.Log, cfg.Backoff, cfg.DialOptions = a.log.add, cmp.Or(cfg.Backoff, pollEvery*4), dialOptions(cfg.DialOptions)
	cfg.LongestBackoff = cmp.Or(cfg.LongestBackoff, cfg.Backoff)
	busy := watchBusy(&cfg)
	var err error
	if a.Client, err = xdsclient.Start(cfg); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		a.Close()
		if err := busy(); err != nil { // whatever the test looks at
			t.Errorf("%s: %v", a.log.who, err)
		}
	})
	return a
}

// mostBusy is how many streams in a row may have an answer and end without time passing,
// as it can only with [testing/synctest]. In real time, such a server and its clients
// would keep each other busy; in virtual time, no test would end.
const mostBusy = 100

// watchBusy makes a client notice that, and let time pass then. The function returns
// what it has noticed.
func watchBusy(cfg *AutoConfig) func() error {
	var (
		mu       sync.Mutex
		noticed  error // guarded by mu
		began    time.Time
		ended    time.Time
		answered bool
		busy     int // streams in a row that had an answer and ended in no time
	)
	watch, read := cfg.Watch, cfg.BeforeRead
	cfg.Watch = func(e AutoEvent) {
		switch {
		case e.Frame != nil:
			answered = true
		case !e.Ended:
			began, answered = time.Now(), false
			if began.Sub(ended) >= cfg.Backoff { // an attempt failed meanwhile
				busy = 0
			}
		default:
			ended = time.Now()
			if busy++; !answered || e.Own || time.Since(began) > 0 {
				busy = 0
			}
			if busy == mostBusy {
				mu.Lock()
				noticed = fmt.Errorf("%d streams in a row had an answer and ended in no time: %w", busy, e.Err)
				mu.Unlock()
			}
		}
		if watch != nil {
			watch(e)
		}
	}
	cfg.BeforeRead = func(ctx context.Context) {
		if busy >= mostBusy {
			pause.For(ctx, pollEvery)
		}
		if read != nil {
			read(ctx)
		}
	}
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		return noticed
	}
}

// CheckViolations fails the test, without ending it, if there are any.
func (a *Auto) CheckViolations(t TB) {
	t.Helper()
	if v := a.Violations(); len(v) > 0 {
		t.Errorf("protocol violations met by %s: %q%s", a.log.who, v, a.log)
	}
}

// WaitFor waits until cond holds, which may ask the client anything; the test
// fails after [Patience]. what completes the sentence "waited for …".
func (a *Auto) WaitFor(t TB, what string, cond func() bool) {
	t.Helper()
	if !poll(cond, a.Changed) {
		t.Fatalf("waited %v for %s, in vain; %s", PatienceHere(), what, a)
	}
}

// WaitHeld waits until the client holds exactly the given names of a type.
func (a *Auto) WaitHeld(t TB, typeURL string, names ...string) {
	t.Helper()
	want := slices.Sorted(slices.Values(names))
	a.WaitFor(t, fmt.Sprintf("%s to be exactly %s", xdsclient.ShortType(typeURL), xdsclient.Brief(want)), func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(a.Held(typeURL))), want)
	})
}

// String returns the state of the client and its latest messages.
func (a *Auto) String() string { return a.Client.String() + a.log.String() }
