package relay_test

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestPolicyLost: canaries that a revision crashes get it once, and after their restart the stable one. The
// key is held, and no other client gets the revision.
func TestPolicyLost(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		s := stage(t, variant, 10, func(p *config.RolloutPolicy) { p.Canaries.Small, p.Steps[0].Bake = 100, time.Hour })
		var mu sync.Mutex
		crashes := make(map[*xdstest.Auto]int)
		took := func(c *xdstest.Auto, f *xdstest.Frame) {
			if !slices.ContainsFunc(f.Resources, func(r xdstest.Resource) bool { return r.Name == "crash" }) {
				return
			}
			mu.Lock()
			crashes[c]++
			mu.Unlock()
			c.Disconnect()
			time.AfterFunc(50*time.Millisecond, c.Connect) // a process that restarts
		}
		s.took.Store(&took)
		s.origin.Set("demo", s.revision("crash")...)
		is := s.waitState("Held")
		if !strings.Contains(strings.Join(is.Findings, "\n"), "lost: fail, all 2 canaries were lost") {
			t.Errorf("held: %+v", is)
		}
		s.all("the stable revision", func(c *xdstest.Auto) bool { return s.has("a")(c) && !s.has("crash")(c) })
		mu.Lock()
		defer mu.Unlock()
		if len(crashes) != 2 {
			t.Errorf("%d clients got the revision, expected the 2 scouts", len(crashes))
		}
		for c, n := range crashes {
			if n > 1 {
				t.Errorf("a client got it %d times: %s", n, c)
			}
		}
		if _, text := s.get(t, "/debug/check"); !strings.Contains(text, "ok") {
			t.Error(text)
		}
	})
}

// TestPolicyFinalBake: if a client rejects a revision during the final bake, all get the one before, and it
// is refused.
func TestPolicyFinalBake(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		s := stage(t, variant, 10, func(p *config.RolloutPolicy) { p.FinalBake, p.Steps[0].Bake = time.Hour, 2*time.Second })
		s.origin.Set("demo", s.revision("b")...)
		s.waitState("Stepping Bake")
		s.rejects.Store(true)
		s.waitState("Held")
		s.all("the revision before", func(c *xdstest.Auto) bool { return s.has("a")(c) && !s.has("b")(c) })
		s.check()
	})
}

// TestPolicyRestart: after a restart in the middle of a rollout, clients have the stable revision, but for
// the canaries of before: the rollout is at the step that it had reached.
func TestPolicyRestart(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		s := stage(t, variant, 10, func(p *config.RolloutPolicy) { p.Mode, p.Steps[0].Bake = "manual", time.Hour })
		xdstest.Eventually(t, "last known good is written", func() bool {
			entries, err := os.ReadDir(s.config.LastKnownGood.Directory)
			return err == nil && len(entries) >= 4
		})
		s.origin.Set("demo", s.revision("b")...)
		s.waitState("Scouting Approval")
		s.order("approve", http.StatusOK)
		s.waitState("Stepping Approval")
		s.order("approve", http.StatusOK)
		before := s.waitState("Stepping Bake")
		xdstest.Eventually(t, "5 canaries have it", func() bool { return len(s.with("b")) == 5 })
		canaries := s.with("b")
		s.stop()
		if err := <-s.done; err != nil {
			t.Fatal(err)
		}
		s.running = startWith(t, s.config, relay.Options{})
		for _, c := range s.clients {
			c.MoveTo(s.Addr())
		}
		after := s.waitState("Stepping Bake")
		if after.Revision != before.Revision || after.Canaries != before.Canaries {
			t.Errorf("before %+v, after the restart %+v", before, after)
		}
		s.all("an answer", func(c *xdstest.Auto) bool { return c.Connected() && c.Stats().Streams > 1 })
		xdstest.Eventually(t, "5 canaries have it again", func() bool { return len(s.with("b")) == 5 })
		if again := s.with("b"); !slices.Equal(again, canaries) {
			t.Error("other clients are canaries than before")
		}
		s.check()
	})
}

// with are the clients that route to a cluster.
func (s *staged) with(cluster string) (all []*xdstest.Auto) {
	for _, c := range s.clients {
		if s.has(cluster)(c) {
			all = append(all, c)
		}
	}
	return all
}

// trouble is what the clients of a stage do besides what clients do.
type trouble struct {
	took    atomic.Pointer[func(*xdstest.Auto, *xdstest.Frame)] // before they answer
	rejects atomic.Bool                                         // whatever has a cluster "b"
	nacks   atomic.Int64                                        // how often clients have rejected something
}

func (s *trouble) beforeAck(c **xdstest.Auto) func(context.Context, *xdstest.Frame) {
	return func(_ context.Context, f *xdstest.Frame) {
		if took := s.took.Load(); took != nil {
			(*took)(*c, f)
		}
	}
}

func (s *trouble) nack(f *xdstest.Frame) (why string) {
	why = rejectPoison(f)
	if s.rejects.Load() && slices.ContainsFunc(f.Resources, func(r xdstest.Resource) bool { return r.Name == "b" }) {
		why = "too late"
	}
	if why != "" {
		s.nacks.Add(1)
	}
	return why
}
