package xdstest

import "time"

// TB is what this package needs of a test. *testing.T, *testing.B and *rapid.T
// have these methods; the load tool, which runs outside of `go test`, brings
// its own.
type TB interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

const (
	// Patience is how long a wait for something that must happen lasts before
	// it fails the test. It is generous because it costs time only in a test
	// that fails anyway, and a busy machine can be ten times as slow as a quiet
	// one.
	Patience = 60 * time.Second

	// virtualPatience is that in virtual time, which no machine makes slower.
	// There, what waits for one of the relay's own timeouts (15 s and more) is
	// late.
	virtualPatience = 10 * time.Second

	// QuietWindow is the default time in which nothing may arrive (the Q of the
	// protocol rules). It is passed by every test that expects silence, so
	// tests with many of them use a shorter one.
	QuietWindow = 500 * time.Millisecond

	// pollEvery is the pause between two looks at a condition that gives no
	// signal when it changes.
	pollEvery = 5 * time.Millisecond
)

// PatienceHere is [Patience], or 10 s in virtual time, whose clock begins with the
// year 2000 (see [testing/synctest]).
func PatienceHere() time.Duration {
	if isVirtualTime() {
		return virtualPatience
	}
	return Patience
}

func isVirtualTime() bool { return time.Now().UTC().Year() == 2000 }

// Eventually waits until cond holds and fails the test after [Patience], or 10 s
// of virtual time. what completes the sentence "waited for …".
func Eventually(t TB, what string, cond func() bool) {
	t.Helper()
	if !poll(cond, nil) {
		t.Fatalf("waited %v for %s, in vain", PatienceHere(), what)
	}
}

// poll looks at cond until it holds or the patience is over. A non-nil changed is
// asked, before each look, for a channel that is closed when another look is
// worth while; cond is looked at again at intervals in any case.
func poll(cond func() bool, changed func() <-chan struct{}) bool {
	deadline := time.NewTimer(PatienceHere())
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		var signal <-chan struct{}
		if changed != nil {
			signal = changed()
		}
		if cond() {
			return true
		}
		select {
		case <-signal:
		case <-tick.C:
		case <-deadline.C:
			return cond()
		}
	}
}
