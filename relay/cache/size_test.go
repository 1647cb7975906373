package cache

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
)

// TestNamesAreCountedAtTheirSize: the counted size of names that a client asks for, and of which
// nothing is known, is about what they take in memory; as well for names that the control plane was
// asked for, and has answered as absent.
func TestNamesAreCountedAtTheirSize(t *testing.T) {
	const count = 100_000
	for _, length := range []int{10, 100} {
		for _, asked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, asked %t", length, asked), func(t *testing.T) {
				w := newWorld(t, Config{})
				defer w.close()
				c := w.client(endpoints, false, "first")
				before, counted := liveHeap(), w.group.bytes()
				names := make([]string, count)
				for i := range names {
					names[i] = fmt.Sprintf("%08d", i) + strings.Repeat("x", length-8)
				}
				c.table.Edit(&c.w, Edit{Add: names})
				if asked {
					w.feed.TakeDemand(true, false)
				}
				takes, says := int64(liveHeap()-before), w.group.bytes()-counted
				t.Logf("a name takes %d bytes, and %d are counted", takes/count, says/count)
				if says < takes*7/10 || says > takes*3/2 {
					t.Errorf("%d names take %d bytes, but %d are counted", count, takes, says)
				}
				runtime.KeepAlive(c)
			})
		}
	}
}

// liveHeap is the size of the live heap, in bytes. The memory of an earlier test may be freed only when the last of
// its goroutines have ended, so it collects until that frees nothing more.
func liveHeap() uint64 {
	var m runtime.MemStats
	size := uint64(math.MaxUint64)
	for same := 0; same < 3; {
		runtime.GC()
		runtime.Gosched()
		if runtime.ReadMemStats(&m); m.HeapAlloc+1<<16 > size {
			same++
		} else {
			same = 0
		}
		size = min(size, m.HeapAlloc)
	}
	return size
}
