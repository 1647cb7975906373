//go:build e2e

package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestQuickStart runs the marked commands of README.md and of the quick start, unchanged, in a
// clone.
func TestQuickStart(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, page := range []string{"README.md", "docs/quick-start.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)<!-- quick start: TestQuickStart runs this -->\n```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) < 2 {
			t.Fatalf("%s has %d blocks of commands to run: has the form changed?", page, len(blocks))
		}
		for _, b := range blocks {
			if !slices.Contains(commands, b[1]) {
				commands = append(commands, b[1])
			}
		}
	}
	for _, address := range []string{"127.0.0.1:18000", "127.0.0.1:19000"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Skipf("the commands need %s: %v", address, err)
		}
		l.Close()
	}
	clone := filepath.Join(t.TempDir(), "xdsrelay")
	if out, err := exec.Command("git", "clone", "--quiet", root, clone).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	for _, c := range commands {
		runBlock(t, clone, c)
	}
}

// runBlock runs commands as a shell would that ends at the first mistake. What they
// leave behind is ended, too.
func runBlock(t *testing.T, dir, commands string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nobody is left if all went well
	if err != nil {
		t.Errorf("%s%v\n%s", commands, err, out.String())
	}
	t.Logf("%s%s", commands, out.String())
}
