package conversation

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

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
		p := &probe{T: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(p, c, Options{
				Start: func(_ xdstest.TB, setup Setup) Server {
					return Server{Addr: func() string { return setup.Origins[0] }}
				},
				Patience: 300 * time.Millisecond, Quiet: 50 * time.Millisecond,
			})
		}()
		<-done
		p.mu.Lock()
		failures := strings.Join(p.failures, "\n")
		p.mu.Unlock()
		if failures != "" {
			return failures
		}
	}
	return ""
}
