package amplify

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// lockWatch finds the lock that others have waited for longest. The profile of the Go runtime
// adds the waits for each holder up, so that a long one would be lost among many short ones:
// it is read every lockWindow, and what is added in between is what others have waited
// together for one holding of a lock, or for a few short ones.
type lockWatch struct {
	end, ended chan struct{}

	// Owned by the goroutine until ended is closed.
	last  map[[32]uintptr]int64 // cycles waited, by the stack of the one that unlocked
	worst map[[32]uintptr]int64 // in one window
	queue []queued              // how long threads were kept from processors, by window
}

// queued is how long all threads of the process had waited for a processor at a time.
type queued struct {
	at    time.Time
	total time.Duration
}

const lockWindow = time.Millisecond

// watchLocks watches all locks of the process until stop is called.
func watchLocks() *lockWatch {
	runtime.SetMutexProfileFraction(1)
	l := &lockWatch{end: make(chan struct{}), ended: make(chan struct{}), last: waited(), worst: make(map[[32]uintptr]int64)}
	perNano := cyclesPerNano()
	go func() {
		defer close(l.ended)
		for more := true; more; {
			select {
			case <-l.end:
				more = false
			case <-time.After(lockWindow):
			}
			now := waited()
			l.queue = append(l.queue, queued{time.Now(), threadsQueued()})
			for stack, cycles := range now {
				if more := cycles - l.last[stack]; more > l.worst[stack] && !l.starved(time.Duration(float64(more)/perNano)) {
					l.worst[stack] = more
				}
			}
			l.last = now
		}
	}()
	return l
}

// starved reports whether others have waited for so long because the machine has kept threads
// of the process from running, which may have held the lock: for half of the time or more.
func (l *lockWatch) starved(waited time.Duration) bool {
	now := l.queue[len(l.queue)-1]
	before := l.queue[0]
	for _, q := range l.queue {
		if now.at.Sub(q.at) >= waited+2*lockWindow {
			before = q
		}
	}
	return waited > lockWindow && 2*(now.total-before.total) > waited
}

// threadsQueued is how long all threads of the process have waited for a processor, as Linux
// says; 0 elsewhere.
func threadsQueued() (total time.Duration) {
	threads, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, name := range threads {
		var ran, queued int64
		if text, err := os.ReadFile(name); err == nil { // the thread may have ended
			if _, err := fmt.Sscan(string(text), &ran, &queued); err == nil {
				total += time.Duration(queued)
			}
		}
	}
	return total
}

// stop ends it, and puts the lock that was held longest, in proportion to what is allowed,
// into c.
func (l *lockWatch) stop(c *cost) {
	close(l.end)
	<-l.ended
	runtime.SetMutexProfileFraction(0)
	perNano, worst := cyclesPerNano(), 0.
	for stack, cycles := range l.worst {
		by := holder(stack)
		most := mostHeld(by)
		if most == 0 {
			continue
		}
		together := time.Duration(float64(cycles) / perNano)
		if share := float64(together) / float64(most); share > worst {
			worst, c.Waited, c.Lock, c.Most = share, together, by, most
		}
	}
}

// mostHeld is how long a holder may keep others waiting; 0 for as long as it likes.
func mostHeld(by string) time.Duration {
	switch {
	case by == "":
		return 0 // a lock inside the Go runtime
	case strings.HasPrefix(by, "fanout.(*stream).unlock"):
		return 0 // it is one stream's: workers go on to others
	case strings.Contains(by, "relay/cache.(*Feed).Apply"):
		return longestApply
	}
	return longestLock
}

// waited are the cycles that were waited for locks so far, by the stack of the one that
// unlocked.
func waited() map[[32]uintptr]int64 {
	n, _ := runtime.MutexProfile(nil)
	records := make([]runtime.BlockProfileRecord, n+100)
	n, ok := runtime.MutexProfile(records)
	all := make(map[[32]uintptr]int64, n)
	if !ok {
		return all
	}
	for _, r := range records[:n] {
		all[r.Stack0] += r.Cycles
	}
	return all
}

// holder are the innermost functions of this module on the stack of an unlock, or of others
// where there are none; "" for a lock of the Go runtime itself.
func holder(stack [32]uintptr) string {
	n := 0
	for n < len(stack) && stack[n] != 0 {
		n++
	}
	frames := runtime.CallersFrames(stack[:n])
	var own []string
	other := ""
	for first, more := true, true; more; first = false {
		var f runtime.Frame
		f, more = frames.Next()
		if first && !strings.HasPrefix(f.Function, "sync.") {
			return ""
		}
		if name, is := strings.CutPrefix(f.Function, "xdsrelay/"); is && len(own) < 3 && !strings.HasSuffix(name, "Unlock") { // which a lock of this module may have, too
			own = append(own, name)
		}
		if other == "" && !strings.HasPrefix(f.Function, "sync.") && !strings.HasPrefix(f.Function, "internal/sync.") {
			other = f.Function
		}
	}
	if len(own) == 0 {
		return other
	}
	return strings.Join(own, " < ")
}

// cyclesPerNano is the speed of the clock that lock profiles are in, as they say.
func cyclesPerNano() float64 {
	var text bytes.Buffer
	if pprof.Lookup("mutex").WriteTo(&text, 1) == nil {
		for line := range strings.Lines(text.String()) {
			if value, ok := strings.CutPrefix(line, "cycles/second="); ok {
				if n, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
					return n / 1e9
				}
			}
		}
	}
	return 1
}
