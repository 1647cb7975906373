package scenario

import (
	"strings"
	"testing"

	"xdsrelay/bench/report"
)

// TestParseHeap reads what the runtime says of the heap behind a profile, and says what is missing.
func TestParseHeap(t *testing.T) {
	const profile = "heap profile: 1: 32 [2: 64] @ heap/1048576\n1: 32 [2: 64] @ 0x1 0x2\n#\t0x0\truntime.malg+0x1\n\n# runtime.MemStats\n# Alloc = 1\n# HeapAlloc = 2345\n# HeapSys = 9\n# HeapInuse = 3000\n# Stack = 400 / 900\n# MSpan = 30 / 90\n# MCache = 2 / 3\n# BuckHashSys = 1\n# GCSys = 1\n# OtherSys = 1\n# Mallocs = 678\n# Frees = 5\n"
	if h, err := parseHeap(profile); err != nil || h != (report.Heap{Live: 2345, InUse: 3435, Allocated: 678}) {
		t.Errorf("it is %+v, %v", h, err)
	}
	for _, bad := range []string{"", strings.Replace(profile, "# Mallocs", "# Nothing", 1), strings.Replace(profile, "2345", "23456789012345678901", 1)} {
		if h, err := parseHeap(bad); err == nil || !strings.Contains(err.Error(), "HeapAlloc") {
			t.Errorf("%q gives %+v, %v", bad, h, err)
		}
	}
}
