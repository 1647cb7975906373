package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"strings"
)

// Usage is what a process holds. Sizes are in bytes.
type Usage struct {
	Goroutines int `json:"goroutines"`
	// RSS is the resident set as it is, garbage included; RSSTrimmed the same
	// after collecting it and returning free memory to the system.
	RSS        int64 `json:"rss"`
	RSSTrimmed int64 `json:"rss_trimmed"`
	// Live is what the objects on the heap hold after a collection, HeapInUse
	// the spans that they lie in, and Stacks the goroutines' stacks.
	Live      int64 `json:"live"`
	HeapInUse int64 `json:"heap_in_use"`
	Stacks    int64 `json:"stacks"`
	// GoroutinesBy counts goroutines by the function that they began in.
	GoroutinesBy map[string]int `json:"goroutines_by,omitempty"`
}

// UsageNow measures this process. It collects garbage, twice, since pools give
// up what they hold only at the second collection.
func UsageNow() (Usage, error) {
	u := Usage{Goroutines: runtime.NumGoroutine()}
	var err error
	if u.RSS, err = residentSet(); err != nil {
		return u, err
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Live, u.HeapInUse = int64(m.HeapAlloc), int64(m.HeapInuse)
	stacks := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(stacks)
	if stacks[0].Value.Kind() == metrics.KindUint64 {
		u.Stacks = int64(stacks[0].Value.Uint64())
	}
	debug.FreeOSMemory()
	if u.RSSTrimmed, err = residentSet(); err != nil {
		return u, err
	}
	u.GoroutinesBy, err = goroutinesByStart()
	return u, err
}

// residentSet reads the process's resident set in bytes.
func residentSet() (int64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("resident set: %w", err)
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("resident set: /proc/self/statm holds %q, expected at least two numbers", b)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resident set: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// goroutinesByStart counts the goroutines by the function they began in.
func goroutinesByStart() (map[string]int, error) {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return nil, fmt.Errorf("goroutines: %w", err)
	}
	by := make(map[string]int)
	// Each block is "COUNT @ addresses", then a line for each frame, the first
	// function last.
	for block := range strings.SplitSeq(text.String(), "\n\n") {
		count, start := 0, ""
		for line := range strings.Lines(block) {
			fields := strings.Fields(line)
			switch {
			case len(fields) > 1 && fields[1] == "@":
				n, err := strconv.Atoi(fields[0])
				if err != nil {
					return nil, fmt.Errorf("goroutines: %q is no count", fields[0])
				}
				count = n
			case len(fields) > 2 && fields[0] == "#":
				start, _, _ = strings.Cut(fields[2], "+0x")
			}
		}
		if start != "" {
			by[start] += count
		}
	}
	return by, nil
}
