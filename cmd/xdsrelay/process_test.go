package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"xdsrelay/relay/xdstest"
)

// asProgram makes the test binary be the program.
const asProgram = "TEST_AS_PROGRAM"

// watchedLog keeps what is written and tells when a node serves.
type watchedLog struct {
	mu      sync.Mutex
	text    bytes.Buffer // guarded by mu
	told    bool         // guarded by mu
	serving chan struct{}
}

func (l *watchedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if !l.told && strings.Contains(l.text.String(), "serving") {
		l.told = true
		close(l.serving)
	}
	return len(p), nil
}

func (l *watchedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestSignals sends signals to the program as a process of its own.
func TestSignals(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			p := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", t.TempDir())
			if err := p.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := p.wait(t); code != 0 {
				t.Errorf("exit code %d\n%s", code, p.log)
			}
			if !strings.Contains(p.log.String(), "msg=stopped") {
				t.Errorf("no orderly end:\n%s", p.log)
			}
		})
	}
}

// TestSecondSignal holds that a second signal ends a drain that takes too long.
func TestSecondSignal(t *testing.T) {
	p := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin=", "--upstream", t.TempDir())
	_, rest, _ := strings.Cut(p.log.String(), " xds=")
	addr, _, _ := strings.Cut(rest, " ")

	// Who watches the health service holds a drain for the grace time.
	conn := xdstest.Dial(t, addr)
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	watch, err := healthpb.NewHealthClient(conn.ClientConn()).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if res, err := watch.Recv(); err != nil || res.Status != want {
			t.Fatalf("health: %v, %v, want %v\n%s", res, err, want, p.log)
		}
	}
	next(healthpb.HealthCheckResponse_SERVING)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	// One that comes within a moment of the first may be taken for the same.
	xdstest.Eventually(t, "a second signal ends the program", func() bool {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails once it has ended
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	if code := p.wait(t); code == 0 || strings.Contains(p.log.String(), "msg=stopped") {
		t.Errorf("exit code %d, want an end by the signal\n%s", code, p.log)
	}
}

// TestLogOfTheProcess: everything that the process writes is a line of its log, also what
// grpc-go says, and durations have units.
func TestLogOfTheProcess(t *testing.T) {
	t.Setenv("GRPC_GO_LOG_SEVERITY_LEVEL", "info")
	t.Setenv("GRPC_GO_LOG_VERBOSITY_LEVEL", "2")
	t.Setenv("XDSRELAY_LOG_FORMAT", "json")
	t.Setenv("XDSRELAY_LOG_LEVEL", "debug")
	p := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", "127.0.0.1:1")
	type line struct{ Level, Msg, Part, Component, Text, XDS string }
	all := func() (lines []line) {
		text := p.log.String()
		for one := range strings.SplitSeq(text[:strings.LastIndex(text, "\n")+1], "\n") {
			var l line
			if one == "" {
				continue
			}
			if err := json.Unmarshal([]byte(one), &l); err != nil {
				t.Fatalf("a line is no JSON: %s", one)
			}
			lines = append(lines, l)
		}
		return lines
	}
	var address string
	for _, l := range all() {
		address = cmp.Or(address, l.XDS)
	}
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: address, Variant: xdstest.Delta, Node: xdstest.Node("envoy-1", "shop")})
	c.Subscribe(xdstest.ClusterType)
	xdstest.Eventually(t, "grpc-go to say that it cannot connect", func() bool {
		return slices.ContainsFunc(all(), func(l line) bool {
			return l.Part == "grpc" && l.Level == "INFO" && l.Component == "core" && strings.Contains(l.Text, "connection refused")
		})
	})
}

// TestSystemdNotify: the program notifies the service manager when it serves, and when it drains.
func TestSystemdNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	p := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin=", "--upstream", t.TempDir())
	next := func() string {
		_ = manager.SetReadDeadline(time.Now().Add(xdstest.Patience))
		buf := make([]byte, 64)
		n, err := manager.Read(buf)
		if err != nil {
			t.Fatalf("no notification: %v\n%s", err, p.log)
		}
		return string(buf[:n])
	}
	if got := next(); got != "READY=1" {
		t.Errorf("got %q, expected READY=1", got)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "STOPPING=1" {
		t.Errorf("got %q, expected STOPPING=1", got)
	}
	p.wait(t)
}

// TestConfigErrorOfTheProcess holds that the exit code gets out of the process.
func TestConfigErrorOfTheProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0], "run", "--upstream-variant", "x")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != exitUsage {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
}

// program is the program in a process of its own.
type program struct {
	cmd  *exec.Cmd
	log  *watchedLog
	done chan struct{} // closed when the process has ended
}

// startProgram returns once it serves.
func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "XDSRELAY_DRAIN_GRACE=1h")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: cmd, log: &watchedLog{serving: make(chan struct{})}, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_, _ = io.Copy(p.log, stderr) // ends with the process
		_ = cmd.Wait()                // the exit code tells
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // has most often ended before
		<-p.done
	})
	select {
	case <-p.log.serving:
	case <-p.done:
		t.Fatalf("the program has ended:\n%s", p.log)
	case <-time.After(30 * time.Second):
		t.Fatalf("the program does not serve:\n%s", p.log)
	}
	return p
}

func (p *program) wait(t *testing.T) (code int) {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		t.Fatalf("the program does not end:\n%s", p.log)
		return 0
	}
}
