package scenario

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xdsrelay/bench/report"
)

// ticks is the number of ticks in a second of CPU time in /proc: Linux fixes it
// at 100 for programs, whatever the kernel's own is.
const ticks = 100

// useOf reads what a process has used.
func useOf(pid int) (report.Use, error) {
	var use report.Use
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return use, fmt.Errorf("use of process %d: %w", pid, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return use, fmt.Errorf("use of process %d: %w", pid, err)
	}
	if use.CPU, use.System, err = parseStat(string(stat)); err != nil {
		return use, fmt.Errorf("use of process %d: %w", pid, err)
	}
	if use.RSS, use.Peak, err = parseStatus(string(status)); err != nil {
		return use, fmt.Errorf("use of process %d: %w", pid, err)
	}
	// Each process has a clock of its CPU time, which is exact; /proc has
	// hundredths of a second.
	var exact unix.Timespec
	if err := unix.ClockGettime(cpuClock(pid), &exact); err != nil {
		return use, fmt.Errorf("use of process %d: %w", pid, err)
	}
	use.CPU = time.Duration(exact.Nano()).Seconds()
	return use, nil
}

// cpuClock is the clock that clock_getcpuclockid(3) returns.
func cpuClock(pid int) int32 {
	const scheduled = 2
	return int32(^pid)<<3 | scheduled
}

// parseStat returns the CPU seconds in the text of /proc/PID/stat, and those of
// them in the kernel.
func parseStat(text string) (cpu, system float64, err error) {
	// The second field is the program's name in parentheses; it may hold any.
	_, rest, ok := strings.Cut(text, " (")
	end := strings.LastIndexByte(rest, ')')
	if !ok || end < 0 {
		return 0, 0, fmt.Errorf("stat %q: no name in parentheses", text)
	}
	fields := strings.Fields(rest[end+1:])
	const utime, stime = 14 - 3, 15 - 3 // numbered from 1 in proc(5); the third comes first here
	if len(fields) <= stime {
		return 0, 0, fmt.Errorf("stat %q: %d fields after the name, expected at least %d", text, len(fields), stime+1)
	}
	u, err := strconv.ParseUint(fields[utime], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("stat: user time: %w", err)
	}
	s, err := strconv.ParseUint(fields[stime], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("stat: system time: %w", err)
	}
	return float64(u+s) / ticks, float64(s) / ticks, nil
}

// parseStatus returns sizes in bytes from the text of /proc/PID/status. A
// process that is ending has none.
func parseStatus(text string) (rss, peak int64, err error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		var into *int64
		switch name {
		case "VmRSS":
			into = &rss
		case "VmHWM":
			into = &peak
		default:
			continue
		}
		size, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		kb, err := strconv.ParseInt(size, 10, 64)
		if err != nil || !ok {
			return 0, 0, fmt.Errorf("status: %s of %q, expected a number of kB", name, value)
		}
		*into = kb << 10
	}
	return rss, peak, nil
}

// plus adds what two processes used.
func plus(a, b report.Use) report.Use {
	return report.Use{CPU: a.CPU + b.CPU, System: a.System + b.System, RSS: a.RSS + b.RSS, Peak: a.Peak + b.Peak}
}

// since is what was used between two moments, and held at the second.
func since(now, then report.Use) report.Use {
	now.CPU -= then.CPU
	now.System -= then.System
	return now
}
