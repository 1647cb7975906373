package main

import (
	"errors"
	"log/slog"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitMemory sets the soft memory limit of Go to 90 % of the container's memory, so that the garbage
// collector works harder before the kernel kills the process. GOMEMLIMIT takes precedence. Without a
// container limit, nothing changes.
func limitMemory(log *slog.Logger) {
	limit, err := memlimit.Set()
	switch {
	case errors.Is(err, memlimit.ErrNoCgroup), errors.Is(err, memlimit.ErrCgroupsNotSupported):
	case err != nil:
		log.Warn("cannot read the memory limit of the container: set GOMEMLIMIT if there is one", "error", err)
	case limit < math.MaxInt64:
		log.Info("memory limit set", "bytes", limit)
	}
}
