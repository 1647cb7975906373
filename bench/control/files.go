package control

import (
	"fmt"
	"syscall"
)

// OpenFiles lets this process have n files and connections open, and fails where
// the system's hard limit is lower.
func OpenFiles(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	if limit.Max < uint64(n) {
		return fmt.Errorf("limit of open files: the hard limit is %d, expected at least %d (ulimit -Hn)", limit.Max, n)
	}
	limit.Cur = max(limit.Cur, uint64(n))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	return nil
}
