package main

import (
	"errors"
	"log/slog"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitMemory lets the garbage collector work harder, rather than the kernel end
// the process, where a container's memory is nearly used up: from 90 % of it. A
// limit in GOMEMLIMIT stays as it is. Where there is none, nothing changes.
func limitMemory(log *slog.Logger) {
	limit, err := memlimit.Set()
	switch {
	case errors.Is(err, memlimit.ErrNoCgroup), errors.Is(err, memlimit.ErrCgroupsNotSupported):
	case err != nil:
		log.Warn("cannot tell how much memory there may be: set GOMEMLIMIT if it is limited", "error", err)
	case limit < math.MaxInt64:
		log.Info("memory is limited", "bytes", limit)
	}
}
