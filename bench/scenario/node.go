package scenario

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"xdsrelay/bench/report"
)

// endTimeout is how long a node may take to end when it is told to.
const endTimeout = 15 * time.Second

// node is a process of a target, which can be ended and started again. It is
// ended and started by one goroutine; its use may be asked for by another.
type node struct {
	// Fixed after construction.
	name    string
	addr    string // where it will listen
	admin   string // its admin address; empty for a command
	command func(context.Context) *exec.Cmd
	log     *logCount

	mu sync.Mutex
	// Guarded by mu.
	cmd   *exec.Cmd     // nil while there is no process
	ended chan struct{} // closed when the process has ended
	past  report.Use    // what processes used that have ended
}

// start starts the process and waits until it listens. It is killed when ctx
// ends.
func (n *node) start(ctx context.Context) error {
	cmd := n.command(ctx)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	cmd.WaitDelay = endTimeout
	dieWithUs(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	ended := make(chan struct{})
	n.mu.Lock()
	n.cmd, n.ended = cmd, ended
	n.mu.Unlock()
	go func() {
		_ = cmd.Wait() // how it ended shows in the log
		n.mu.Lock()
		n.cmd = nil
		state := cmd.ProcessState
		n.past.CPU += (state.UserTime() + state.SystemTime()).Seconds()
		n.past.System += state.SystemTime().Seconds()
		n.mu.Unlock()
		close(ended)
	}()
	if err := accepts(ctx, n.addr, ended); err != nil {
		return fmt.Errorf("start %s: %w; its log ends with:\n%s", n.name, err, n.log.last())
	}
	return nil
}

// stop tells the process to end, and waits for that.
func (n *node) stop() error {
	n.mu.Lock()
	cmd, ended := n.cmd, n.ended
	n.mu.Unlock()
	if cmd == nil {
		return nil
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
	timeout := time.NewTimer(endTimeout)
	defer timeout.Stop()
	select {
	case <-ended:
		return nil
	case <-timeout.C:
		_ = cmd.Process.Kill()
		<-ended
		return fmt.Errorf("%s: it did not end in %v and was killed", n.name, endTimeout)
	}
}

// dead is an error if the process is not there.
func (n *node) dead() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return fmt.Errorf("%s: it ended; its log ends with:\n%s", n.name, n.log.last())
	}
	return nil
}

// use is what all of its processes used, and what the last one holds.
func (n *node) use() (report.Use, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return n.past, nil
	}
	now, err := useOf(n.cmd.Process.Pid)
	return plus(n.past, now), err
}

// stopAll ends all nodes.
func stopAll(nodes []*node) error {
	errs := make([]error, len(nodes))
	var stopping sync.WaitGroup
	for i, n := range nodes {
		stopping.Go(func() { errs[i] = n.stop() })
	}
	stopping.Wait()
	return errors.Join(errs...)
}
