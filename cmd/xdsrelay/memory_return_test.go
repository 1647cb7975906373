package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestMemoryReturn: memory is returned when the process has been at rest for some looks and there is
// enough of it, and for at most about 4 % of the time.
func TestMemoryReturn(t *testing.T) {
	const mega = 1 << 20
	var m memoryReturn
	now, allocated := time.Unix(1000, 0), uint64(500*mega)
	looks := func(n int, since, excess, resident uint64) (returned int) {
		for range n {
			allocated += since
			now = now.Add(lookInterval)
			if m.step(now, memoryUse{inUse: 160 * mega, allocated: allocated, excess: excess, resident: resident}) {
				returned++
				resident = 160 * mega
				m.took(now, 800*time.Millisecond, 2, resident)
			}
		}
		return returned
	}
	for _, tc := range []struct {
		what                    string
		looks                   int
		since, excess, resident uint64
		want                    int
	}{
		{"while clients connect", 20, 5 * mega, 100 * mega, 260 * mega, 0},
		{"right after that", 5, 0, 100 * mega, 260 * mega, 0},
		{"at rest", 1, 0, 100 * mega, 260 * mega, 1},
		{"soon afterwards", 19, 1000, 50 * mega, 210 * mega, 0},
		{"10 s afterwards", 1, 1000, 50 * mega, 210 * mega, 1},
		{"with little to return", 100, 1000, 9 * mega, 169 * mega, 0},
		{"with what an idle node allocates", 600, mega / 2, 39 * mega, 199 * mega, 0},
		{"until it is much", 1, mega / 2, 40 * mega, 199 * mega, 1},
		{"after updates", 20, 2 * mega, 11 * mega, 169 * mega, 0},
		{"and a pause, which is longer as it is soon again, with pings of clients", 12, mega / 2, 11 * mega, 169 * mega, 1},
		{"with updates", 6, 2 * mega, 50 * mega, 210 * mega, 0},
		{"with garbage that the last collection counted as in use", 26, 1000, mega, 180 * mega, 1},
		{"if that was in use", 100, 1000, mega, 169 * mega, 0},
		{"when the system took some back", 20, 1000, mega, 150 * mega, 0},
		{"and it is resident again", 1, 1000, mega, 162 * mega, 0},
		{"and more is", 1, 1000, mega, 190 * mega, 1},
	} {
		if got := looks(tc.looks, tc.since, tc.excess, tc.resident); got != tc.want {
			t.Errorf("%s: returned %d times, expected %d", tc.what, got, tc.want)
		}
	}
	for range 10 { // a sample of the live page is no burst
		if got := looks(1, 3*mega, 11*mega, 171*mega) + looks(9, 1000, 11*mega, 171*mega); got > 0 {
			t.Errorf("with samples: returned %d times, expected none", got)
		}
	}
}

// TestMemoryReturnInVain: if what was returned is allocated again within a minute, the next return waits
// for a longer rest, up to a minute; after a minute at rest it waits no longer than the first one.
func TestMemoryReturnInVain(t *testing.T) {
	const mega = 1 << 20
	var m memoryReturn
	now, allocated, resident := time.Unix(1000, 0), uint64(500*mega), uint64(250*mega)
	look := func(since uint64) (returned bool) {
		allocated += since
		now = now.Add(lookInterval)
		if returned = m.step(now, memoryUse{inUse: 160 * mega, allocated: allocated, excess: resident - 160*mega, resident: resident}); returned {
			resident = 160 * mega
			m.took(now, 10*time.Millisecond, 2, resident)
		}
		return returned
	}
	// rest returns after which time at rest memory is returned, with a change every so often.
	rest := func() time.Duration {
		look(90 * mega)
		resident = 250 * mega
		for n := 1; n < 1000; n++ {
			if look(1000) {
				return time.Duration(n) * lookInterval
			}
		}
		return 0
	}
	const quiet = quietLooks * lookInterval
	for i, want := range []time.Duration{quiet, 2 * quiet, 3 * quiet, 5 * quiet, 9 * quiet, 17 * quiet, time.Minute + quiet, time.Minute + quiet} {
		if got := rest(); got != want {
			t.Errorf("return %d after %s at rest, expected %s", i, got, want)
		}
	}
	returns := 0
	for i := range 500 {
		if i%5 == 0 && look(8*mega) || look(1000) {
			returns++
		}
	}
	if returns > 0 {
		t.Errorf("%d returns with a change every 2.5 s", returns)
	}
	for range 300 {
		look(1000)
	}
	if got := rest(); got != quiet {
		t.Errorf("after a minute at rest: a return after %s, expected %s", got, quiet)
	}
}

// TestReturnMemory: garbage of a process at rest is gone after seconds, not when the heap has doubled.
func TestReturnMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody else collects
	func() {
		garbage := make([][]byte, 64)
		for i := range garbage {
			garbage[i] = make([]byte, 1<<20)
		}
		runtime.KeepAlive(garbage)
	}()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); returnMemory(ctx) }()
	defer func() { cancel(); <-done }()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(lookInterval / 5) { //nolint:forbidigo // the collector has no other clock
		runtime.ReadMemStats(&after)
		if after.HeapInuse+after.HeapIdle-after.HeapReleased+48<<20 < before.HeapInuse+before.HeapIdle-before.HeapReleased {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d MiB of heap are resident, %d before", (after.HeapInuse+after.HeapIdle-after.HeapReleased)>>20, (before.HeapInuse+before.HeapIdle-before.HeapReleased)>>20)
		}
	}
}
