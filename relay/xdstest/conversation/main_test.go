package conversation

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// probe is a TB that notes a failure instead of failing.
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

// play runs a script in all its combinations and returns the first failure, ""
// for none. Clients talk to the origin itself.
func play(t *testing.T, text string) string {
	t.Helper()
	s, err := Parse("B1_try.txtar", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Combinations {
		var failures string
		synctest.Test(t, func(t *testing.T) { failures = once(t, s, c) })
		if failures != "" {
			return failures
		}
	}
	return ""
}

// once runs one combination, in virtual time.
func once(t *testing.T, s Script, combination string) string {
	t.Helper()
	p := &probe{T: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(p, combination, Options{
			Start: func(_ xdstest.TB, setup Setup) Server {
				return Server{Addr: func() string { return setup.Origins[0] }}
			},
			Network: xdstest.NewMemory(),
		})
	}()
	<-done
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.failures, "\n")
}
