package xdstest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// probe is a TB that notes a failure instead of failing, so that a test can see
// that a check does fail when it should.
type probe struct {
	*testing.T

	mu       sync.Mutex
	failures []string // guarded by mu
}

func (p *probe) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, fmt.Sprintf(format, args...))
}

func (p *probe) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

// mustFail runs check and returns the message it failed with; it fails t if
// check passes.
func mustFail(t *testing.T, check func(TB)) string {
	t.Helper()
	p := &probe{T: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(p)
	}()
	<-done
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failures) == 0 {
		t.Fatalf("a check passed that should have failed")
	}
	return strings.Join(p.failures, "\n")
}
