package robust

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// patience is how long a run waits for what has to happen. It is far more than any
// machine needs, and costs time only where something is wrong.
const patience = 3 * time.Minute

// Node is a relay as a process of its own, with its proxies. Its methods are called
// by one goroutine, except for Name and Addr.
type Node struct {
	// Fixed after construction.
	t      xdstest.TB
	name   string
	addr   string // for clients
	admin  string
	binary string
	dir    string
	env    []string // more of its environment
	to     *record.Recorder
	origin *proxy
	redis  *proxy // nil without a tier, and with a Redis Cluster
	peer   *proxy // nil without a tier
	// redisAt is where the node finds Redis, as in its configuration.
	redisAt string

	cmd    *exec.Cmd // nil while it does not run
	done   chan struct{}
	starts int
}

// Name is what the node calls itself.
func (n *Node) Name() string { return n.name }

// Addr is where it takes clients.
func (n *Node) Addr() string { return n.addr }

// home is the node's own folder.
func (n *Node) home() string { return filepath.Join(n.dir, n.name) }

// Start starts the process and waits until it takes clients.
func (n *Node) Start() {
	n.t.Helper()
	n.starts++
	log, err := os.OpenFile(filepath.Join(n.dir, n.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatalf("node %s: %v", n.name, err)
	}
	cmd := exec.CommandContext(context.Background(), n.binary, "run", "-c", filepath.Join(n.dir, n.name+".yaml"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir, cmd.Env = n.home(), append(os.Environ(), n.env...)
	dieWithUs(cmd)
	err = cmd.Start()
	_ = log.Close() // the process has its own
	if err != nil {
		n.t.Fatalf("node %s: %v", n.name, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended stands in its log
		close(done)
	}()
	n.cmd, n.done = cmd, done
	until(n.t, "node "+n.name+" to take clients; its log is "+log.Name(), func() bool {
		select {
		case <-done:
			n.t.Fatalf("node %s ended at its start: %v\n%s", n.name, cmd.ProcessState, tailOf(log.Name()))
		default:
		}
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(context.Background(), "tcp", n.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	n.to.Add(record.Event{Kind: record.NodeUp, Node: n.name})
}

// Kill ends it as kill -9 does.
func (n *Node) Kill() {
	n.t.Helper()
	n.to.Add(record.Event{Kind: record.NodeDown, Node: n.name, Why: "killed"})
	n.signal(syscall.SIGKILL)
	<-n.done
	n.cmd = nil
}

// Terminate asks it to end, and waits until it has.
func (n *Node) Terminate() {
	n.t.Helper()
	n.to.Add(record.Event{Kind: record.NodeDown, Node: n.name, Why: "terminated"})
	n.signal(syscall.SIGTERM)
	until(n.t, "node "+n.name+" to end after SIGTERM", func() bool {
		select {
		case <-n.done:
			return true
		default:
			return false
		}
	})
	n.cmd = nil
}

// Pause stops it as it is.
func (n *Node) Pause() { n.t.Helper(); n.signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (n *Node) Resume() { n.t.Helper(); n.signal(syscall.SIGCONT) }

func (n *Node) signal(sig syscall.Signal) {
	n.t.Helper()
	select {
	case <-n.done:
		n.t.Fatalf("node %s has ended by itself: %v\n%s", n.name, n.cmd.ProcessState, tailOf(filepath.Join(n.dir, n.name+".log")))
	default:
	}
	if err := n.cmd.Process.Signal(sig); err != nil {
		n.t.Fatalf("node %s: %v: %v", n.name, sig, err)
	}
}

// stop ends it at the end of a run, in whatever state it is.
func (n *Node) stop() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	<-n.done
	n.cmd = nil
}

// Check asks the node to compare what it holds with itself; nil says that all fits.
func (n *Node) Check(ctx context.Context) error {
	text, err := n.get(ctx, "/debug/check")
	if err != nil {
		return fmt.Errorf("node %s: /debug/check: %w\n%s", n.name, err, text)
	}
	return nil
}

// get asks the node's admin port.
func (n *Node) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(text), err
}

// until waits for a condition.
func until(t xdstest.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-deadline.C:
			t.Fatalf("waited %v for %s, in vain", patience, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tailOf is the end of a log.
func tailOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}
