package report

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
)

// Machine says what a result was measured on, and which code.
type Machine struct {
	// Commit is the commit of the working tree; Modified says that the code of
	// the module differs from it.
	Commit   string    `json:"commit"`
	Modified bool      `json:"modified"`
	Date     time.Time `json:"date"`
	Go       string    `json:"go"`
	GRPC     string    `json:"grpc"`
	CPU      string    `json:"cpu"`
	Kernel   string    `json:"kernel"`
	// Cores are those that the process may use.
	Cores int `json:"cores"`
	// MemoryMB is the machine's memory in MiB.
	MemoryMB int `json:"memory_mb"`
}

// results are no part of the code.
const results = "bench/results"

// ThisMachine describes the machine and, where the working directory is in a
// git checkout, the commit. What cannot be found out is "unknown" or 0. paths
// are the parts of the repository, from its root, that Modified is about; none
// means all.
func ThisMachine(ctx context.Context, paths ...string) Machine {
	m := Machine{
		Commit: "unknown", Date: time.Now().UTC().Truncate(time.Second),
		Go: runtime.Version(), GRPC: grpc.Version,
		CPU:    fieldOf("/proc/cpuinfo", "model name"),
		Kernel: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(),
	}
	if commit, err := git(ctx, "rev-parse", "--short=12", "HEAD"); err == nil {
		m.Commit = commit
		args := []string{"status", "--porcelain", "--", ":(exclude,top)" + results}
		for _, p := range paths {
			args = append(args, ":/"+p)
		}
		status, err := git(ctx, args...)
		m.Modified = err != nil || status != ""
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel += " " + strings.TrimSpace(string(release))
	}
	if total, ok := strings.CutSuffix(fieldOf("/proc/meminfo", "MemTotal"), " kB"); ok {
		kb, _ := strconv.Atoi(total)
		m.MemoryMB = kb >> 10
	}
	return m
}

// String is the machine in one line.
func (m *Machine) String() string {
	modified := ""
	if m.Modified {
		modified = " with changes"
	}
	return fmt.Sprintf("%s, commit %s%s, %s, grpc-go %s, %s, %d cores, %d MiB, %s",
		m.Date.Format(time.DateOnly), m.Commit, modified, m.Go, m.GRPC, m.CPU, m.Cores, m.MemoryMB, m.Kernel)
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out)), err
}

// fieldOf returns the first value of a field in a file of lines "field: value".
func fieldOf(path, field string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
