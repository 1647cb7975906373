package amplify

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What is held of each row.
const (
	// growth is by how much the cost of a byte may be higher in a large message than in a
	// small one. Linear is 1; quadratic is as much as the sizes differ.
	growth = 3
	// spareCPU and spareMemory are what a message may cost whatever its size.
	spareCPU    = 15 * time.Millisecond
	spareMemory = 1 << 20
	// beforeAuthorize is the memory for each byte of a request that is refused.
	beforeAuthorize = 4
	// fewPerByte is the memory for each byte that is never too much: it is so little that
	// what a small message takes is not measured reliably.
	fewPerByte = 8
	// longestLock is how long a lock may be held.
	longestLock = 5 * time.Millisecond
	// longestApply is how long clients of one key may wait for a type while a response of 1 MiB
	// is applied, which is done in one piece: SotW clients see all of it or nothing.
	longestApply = 100 * time.Millisecond
	// longEnough is how long small messages are sent, at least one: many ticks of the kernel.
	longEnough = 250 * time.Millisecond
	// leastLong is how long they are sent at least, though they are as many bytes as a large
	// one: what a thread computes after the last tick, of 4 ms, is counted too late.
	leastLong = 60 * time.Millisecond
	// tries is how often a cost is measured that exceeds its bound.
	tries = 5
)

// sizes are those that the row is measured in.
func (r row) sizes() (small, large int) {
	small, large = 16<<10, 256<<10
	if *full {
		small, large = 64<<10, 1<<20
	}
	if r.most > 0 && r.most < large {
		return r.most / 16, r.most
	}
	return small, large
}

// row is a way to send a node something.
type row struct {
	surface string // such as a port
	message string // what is sent there
	field   string // the path of the field that is filled
	pattern string
	refused bool // before the client is authorized
	most    int  // larger messages are refused by their size alone; 0 for none
	// send sends about so many bytes and waits until they are refused or served. It
	// returns how many there were.
	send func(t *testing.T, size int) int
}

func (r row) String() string {
	return fmt.Sprintf("%s %s %s: %s", r.surface, r.message, r.field, r.pattern)
}

// world is a node with all that it talks to.
type world struct {
	*node

	locks func(t *testing.T, do func()) // runs do while others go on using the node
}

// hold measures a row and holds its bounds. A large message that costs little whatever its
// size needs no comparison; texts that are hard to search are tried in small first. What a
// large message is compared with are small ones of as many bytes, or of many ticks: the kernel
// counts the time of threads that run only with each of its ticks, so that one small message
// alone may seem to cost nothing.
func (w *world) hold(t *testing.T, r row, results figures) {
	small, large := r.sizes()
	if strings.HasSuffix(r.pattern, "repeated") {
		var bytes int
		one := w.least(t, r, func(c cost) bool { return c.CPU <= 8*spareCPU }, func() { bytes = r.send(t, small) })
		if one.CPU > 8*spareCPU {
			t.Errorf("%v: %d bytes take %v of CPU time, expected at most %v", r, bytes, one.CPU, 8*spareCPU)
			return
		}
	}
	var few cost
	var fewBytes, manyBytes int
	measured := false
	compare := func() {
		if measured {
			return
		}
		measured = true
		few = w.measure(t, " settled", func() {
			for began, n := time.Now(), 0; n == 0 || time.Since(began) < leastLong || n < large/small && time.Since(began) < longEnough; n++ {
				fewBytes += r.send(t, small)
			}
		})
		if *only != "" {
			t.Logf("%v: %d bytes in small: %v of CPU time, %d bytes", r, fewBytes, few.CPU, few.Memory)
		}
	}
	ratio := func() float64 { return growth * float64(manyBytes) / float64(max(fewBytes, 1)) }
	cpuBound := func() time.Duration { return time.Duration(ratio()*float64(few.CPU)) + spareCPU }
	memoryBound := func() int64 {
		if r.refused {
			return int64(beforeAuthorize*manyBytes) + spareMemory
		}
		return max(int64(ratio()*float64(few.Memory)), int64(fewPerByte*manyBytes)) + spareMemory
	}
	many := w.least(t, r, func(c cost) bool {
		if c.CPU > spareCPU || c.Memory > memoryBound() {
			compare()
		}
		return c.CPU <= cpuBound() && c.Memory <= memoryBound()
	}, func() { manyBytes = r.send(t, large) })
	if many.CPU > cpuBound() {
		t.Errorf("%v: %d bytes in messages of %d take %v of CPU time and %d in one take %v, expected at most %v", r, fewBytes, small, few.CPU, manyBytes, many.CPU, cpuBound())
	}
	if many.Memory > memoryBound() {
		t.Errorf("%v: %d bytes take %d of memory (%.1f for each), expected at most %d", r, manyBytes, many.Memory, float64(many.Memory)/float64(manyBytes), memoryBound())
	}
	if many.CPU <= longestLock || w.locks == nil {
		results.add(r, manyBytes, many)
		return // what takes less computes with a lock for less
	}
	var held cost
	for try := range tries {
		now := w.measure(t, " locks", func() { w.locks(t, func() { r.send(t, large) }) })
		if try == 0 || now.Waited < held.Waited {
			held = now
		}
		if *only != "" {
			t.Logf("%v: others have waited %v for the lock that %s held", r, held.Waited, held.Lock)
		}
		if held.Waited <= held.Most {
			many.Waited, many.Lock = held.Waited, held.Lock
			results.add(r, manyBytes, many)
			return
		}
	}
	t.Errorf("%v: others have waited %v for the lock that %s held, expected at most %v", r, held.Waited, held.Lock, held.Most)
}

// least measures until the cost is good, and returns the least of each. What was measured
// before may still keep the node busy, which a second try waits for.
func (w *world) least(t *testing.T, r row, good func(cost) bool, do func()) (c cost) {
	t.Helper()
	for try := range tries {
		how := ""
		if try > 0 {
			how = " settled"
		}
		now := w.measure(t, how, do)
		if *only != "" {
			t.Logf("%v: try %d: %v of CPU time, %d bytes", r, try, now.CPU, now.Memory)
		}
		if try == 0 {
			c = now
		}
		c.CPU, c.Memory = min(c.CPU, now.CPU), min(c.Memory, now.Memory)
		if good(c) {
			break
		}
	}
	return c
}
