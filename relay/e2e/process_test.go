//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stopWithin is how long a process may take to end by itself after SIGTERM.
const stopWithin = 30 * time.Second

// tailLines is how much of a process's output a failed test shows.
const tailLines = 60

// process is a program that a test started. It ends with the test at the
// latest, and shows the end of its output when the test has failed.
type process struct {
	// Fixed after startProcess.
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed once the process has ended and err is set

	// Written before done is closed.
	err error

	mu   sync.Mutex
	tail []string // guarded by mu: the newest lines of the log
}

// startProcess runs cmd. Lines of standard error go to the log; lines of
// standard output go to onLine, or to the log too where onLine is nil.
func startProcess(t *testing.T, name string, cmd *exec.Cmd, onLine func(string)) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	if onLine == nil {
		onLine = p.log
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("%s: standard output: %v", name, err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatalf("%s: standard error: %v", name, err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: start %s: %v", name, strings.Join(cmd.Args, " "), err)
	}
	var readers sync.WaitGroup
	readers.Go(func() { eachLine(stdout, onLine) })
	readers.Go(func() { eachLine(stderr, p.log) })
	go func() {
		readers.Wait() // Wait closes the pipes, so they are read to their end first.
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the last output of %s (pid %d):\n%s", p.name, p.cmd.Process.Pid, p.output())
		}
	})
	return p
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // It may have ended already.
	<-p.done
}

// terminate asks the process to stop and returns how it ended.
func (p *process) terminate() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: SIGTERM: %w", p.name, err)
	}
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("%s: after SIGTERM: %w, want exit code 0", p.name, p.err)
		}
		return nil
	case <-time.After(stopWithin):
		return fmt.Errorf("%s: still running %v after SIGTERM", p.name, stopWithin)
	}
}

// ended returns an error if the process is gone, nil while it runs.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %v; its last output:\n%s", p.name, p.cmd.ProcessState, p.output())
	default:
		return nil
	}
}

// log keeps a line for output.
func (p *process) log(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(p.tail, line)
	if extra := len(p.tail) - tailLines; extra > 0 {
		p.tail = p.tail[extra:]
	}
}

// output returns the newest lines of the log.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tail) == 0 {
		return "(nothing)"
	}
	return strings.Join(p.tail, "\n")
}

// eachLine calls f for every line of r until r ends.
func eachLine(r io.Reader, f func(string)) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f(lines.Text())
	}
	_, _ = io.Copy(io.Discard, r) // A line beyond the limit must not block its writer.
}

// final marks an error that waiting cannot mend.
type final struct{ error }

// poll calls condition until it returns nil or a final error. It returns
// condition's last error once ctx is over.
func poll(ctx context.Context, condition func() error) error {
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		err := condition()
		if _, ok := errors.AsType[final](err); ok || err == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-every.C:
		}
	}
}

// accepts waits until a process accepts connections at an address.
func accepts(ctx context.Context, p *process, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return poll(ctx, func() error {
		if err := p.ended(); err != nil {
			return final{err}
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
