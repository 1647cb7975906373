package hostile

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"xdsrelay/bench/fleet"
)

// What the good clients may see of an attack on the shipped limits, compared with the
// quiet phase right before it in the same run.
const (
	// The p99 of the time from a change to its receipt may be so many times that of the
	// quiet phase,
	slower = 3
	// and this much more: the attacker and the good clients share the machine with the
	// node.
	spareLatency = time.Second
	// How many changes the quiet phase has.
	quietChanges = 15
)

// spareAfter is the part of its memory that a node may hold more after an attack than
// before it: what its caches and the linger time keep for a while.
const spareAfter = 4

// What more may live in a node after an attack, in bytes: what differs from one collection
// to the next, and for each change the responses to the good clients, which are kept within
// limits.max_encoded_size.
const (
	spareLive   = 4 << 20
	bodiesOfOne = 100 << 10
)

// grown holds that no more lives in a node than at an earlier moment, and so many bytes.
func (f footprint) grown(t *testing.T, what string, since footprint, by int64) {
	t.Helper()
	most := since.heap + by + spareLive + bodiesOfOne*(f.at-since.at)
	t.Logf("%s: %.1f MiB are live, and were %.1f MiB %d changes before", what, mib(f.heap), mib(since.heap), f.at-since.at)
	if f.heap > most {
		t.Errorf("%s: %.1f MiB are live, expected %.1f MiB at most; before it were %.1f MiB", what, mib(f.heap), mib(most), mib(since.heap))
	}
}

// needQuiet skips a test that measures memory and times unless it was asked for.
func needQuiet(t *testing.T) {
	t.Helper()
	switch {
	case detector:
		t.Skip("the race detector multiplies the memory and the times that are held here")
	case !*shipped && !*full:
		t.Skip("measures memory and times: make hostile-defaults")
	}
}

// TestDefaults attacks a node that has the shipped configuration and the memory of the
// chart. It must live, keep within its memory, and serve its good clients as before:
// none of their streams ends, and changes reach them within a multiple of the time that
// they took in the quiet phase. A node that an attack has harmed is replaced by a new one
// for the next attack.
func TestDefaults(t *testing.T) {
	needQuiet(t)
	chart := chartMemory(t)
	var s *stage
	for _, a := range defaults {
		want := setup{Defaults: true, Memory: chart}
		if a.memory > 0 && !*full {
			want.Memory = a.memory
		}
		if !*full {
			want.Linger = a.linger
		}
		if s != nil && (s.Memory != want.Memory || s.Linger != want.Linger) {
			s.end()
			s = nil
		}
		if s == nil {
			s = newStage(t, want)
		}
		if !s.endures(t, a) {
			_ = s.process.Kill()
			s = nil
		}
	}
}

// end ends the good clients and the node before the test does.
func (s *stage) end() {
	for _, f := range s.fleets {
		f.Close()
	}
	s.process.end()
}

// chartMemory is the memory limit of the chart's container, in bytes.
func chartMemory(t *testing.T) int64 {
	t.Helper()
	const name = "../../deploy/helm/xdsrelay/values.yaml"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^  limits: \{memory: (\d+)(Gi|Mi)\}$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no line like %q", name, "  limits: {memory: 1Gi}")
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << map[string]int{"Mi": 20, "Gi": 30}[string(m[2])]
}

// program is what a process has that does not count towards its limit, like its code: next
// to nothing of the chart's container, and much of a small one.
const program = 64 << 20

// container is what the node's process may take.
func (s setup) container() int64 {
	if s.Memory <= little {
		return s.Memory + program
	}
	return s.Memory
}

// goMemory is the part of its container's memory that the program keeps to: what it sets
// GOMEMLIMIT to.
func (s setup) goMemory() int64 { return s.Memory * 9 / 10 }

// dead reports whether the node's process has ended.
func (s *stage) dead() bool {
	select {
	case <-s.process.ended:
		return true
	default:
		return false
	}
}

// guard looks at the resident memory of a node's process and kills it when it exceeds a
// limit, as the kernel does with a container.
type guard struct {
	peak atomic.Int64
	over atomic.Bool
	stop context.CancelFunc
	done sync.WaitGroup
}

func (s *stage) guarded(t *testing.T) *guard {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	g := &guard{stop: stop}
	g.done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			now := resident(s.process.Pid)
			g.peak.Store(max(g.peak.Load(), now))
			if now > s.container() {
				g.over.Store(true)
				_ = s.process.Kill()
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return g
}

func (g *guard) end() {
	g.stop()
	g.done.Wait()
}

// resident is the memory of a process, in bytes; 0 where the system has no /proc.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// forget begins the distribution of latencies anew.
func (s *stage) forget() {
	for _, f := range s.fleets {
		f.Reset()
	}
}

// p99 is that of the time from a change to its receipt, since [stage.forget].
func (s *stage) p99(t *testing.T) time.Duration {
	t.Helper()
	var all *hdr.Histogram
	for _, f := range s.fleets {
		h, err := decode(f)
		if err != nil {
			t.Fatal(err)
		}
		if all == nil {
			all = h
		} else {
			all.Merge(h)
		}
	}
	return time.Duration(all.ValueAtPercentile(99)) * time.Microsecond
}

func decode(f *fleet.Fleet) (*hdr.Histogram, error) {
	now := f.Stats().Propagation
	return now.Decode()
}

// watches makes change after change until ctx ends, and returns the first one that did
// not reach all good clients.
func (s *stage) watches(t *testing.T, ctx context.Context) error {
	for ctx.Err() == nil && !s.dead() {
		if err := s.converges(t.Context()); err != nil {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// endures runs an attack on a node with the shipped configuration, after a quiet phase,
// and reports whether the node is unharmed.
func (s *stage) endures(t *testing.T, a attack) bool {
	t.Helper()
	return t.Run(a.name, func(t *testing.T) {
		s.before = s.footprint(t)
		s.forget()
		for range quietChanges {
			if err := s.converges(t.Context()); err != nil {
				t.Fatalf("in the quiet phase: %v", err)
			}
		}
		quiet := s.p99(t)
		s.forget()
		changes, refused, began := s.changes.Load(), refusalsIn(s.get(t, "/metrics")), time.Now()

		g := s.guarded(t)
		ctx, end := context.WithCancel(t.Context())
		var watch sync.WaitGroup
		var wrong error
		watch.Go(func() { wrong = s.watches(t, ctx) })
		t.Cleanup(func() { // also after t.Fatal in the attack
			end()
			watch.Wait()
			g.end()
			if g.over.Load() {
				t.Errorf("the node takes more than the %d MiB of its container", s.container()>>20)
			}
		})
		a.run(t, s)
		// Changes that are under way when the attack ends count, too.
		for now := s.changes.Load(); s.changes.Load() < now+2 && !s.dead() && wrong == nil; {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-s.process.ended:
			}
		}
		end()
		watch.Wait()
		g.end()

		switch {
		case s.dead():
			t.Fatal("the node has ended")
		case wrong != nil:
			t.Fatalf("during the attack: %v", wrong)
		}
		s.unharmed(t)
		during := s.p99(t)
		if during > slower*quiet+spareLatency {
			t.Errorf("p99 of the good clients was %v in the quiet phase and %v during the attack, expected at most %d times that and %v", quiet, during, slower, spareLatency)
		}
		after := s.settles(t)
		t.Logf("p99 %v quiet, %v during; memory %d MiB before, %d MiB peak, %d MiB after; %d changes, refused: %v", quiet, during,
			s.before.rss>>20, g.peak.Load()>>20, after.rss>>20, s.changes.Load()-changes, since(refused, refusalsIn(s.get(t, "/metrics"))))
		s.results = append(s.results, result{
			attack: a.name, took: time.Since(began), changes: s.changes.Load() - changes,
			refusals: since(refused, refusalsIn(s.get(t, "/metrics"))), before: s.before, after: after,
		})
	})
}

// settles waits until the attacker's streams are gone, and what is left of them is
// bounded.
func (s *stage) settles(t *testing.T) (now footprint) {
	t.Helper()
	limit := time.Now().Add(20 * time.Second)
	for now = s.footprint(t); ; now = s.footprint(t) {
		if now.streams == s.before.streams && now.rss < s.before.rss+s.Memory/spareAfter {
			break
		}
		if time.Now().After(limit) {
			t.Errorf("the attack has left too much\nbefore: %v\nnow:    %v", s.before, now)
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	// What strangers left in Redis is replaced when it is found.
	var text string
	for text = s.get(t, "/debug/check"); text != "ok\n" && time.Now().Before(limit); text = s.get(t, "/debug/check") {
		<-time.After(50 * time.Millisecond)
	}
	if text != "ok\n" {
		t.Errorf("the node's state contradicts itself: %s", text)
	}
	return now
}
