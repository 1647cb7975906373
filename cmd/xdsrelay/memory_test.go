package main

import (
	"bytes"
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"
)

// TestLimitMemory holds that a limit which the user has set is kept, and said.
func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(3 << 30)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	t.Setenv("GOMEMLIMIT", "3GiB")
	var log bytes.Buffer
	limitMemory(slog.New(slog.NewTextHandler(&log, nil)))
	if now := debug.SetMemoryLimit(-1); now != 3<<30 {
		t.Errorf("the limit is %d, expected %d", now, 3<<30)
	}
	if !strings.Contains(log.String(), "bytes=3221225472") {
		t.Errorf("the log is %q, expected the limit in it", &log)
	}
}
