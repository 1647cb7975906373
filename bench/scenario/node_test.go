package scenario

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xdsrelay/bench/report"
)

// asNode makes this test's program a node: the way that it behaves, and where it
// listens.
const asNode = "XDSBENCH_NODE_TEST"

func TestMain(m *testing.M) {
	if told := os.Getenv(asNode); told != "" {
		beNode(told)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func beNode(told string) {
	how, addr, _ := strings.Cut(told, "@")
	if how == "ends" {
		fmt.Fprintln(os.Stderr, "no reason to live")
		os.Exit(3)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening")
	<-terminated
	_ = l.Close()
	fmt.Println("ended")
}

func newTestNode(t *testing.T, how string) *node {
	t.Helper()
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{name: "node", addr: fmt.Sprintf("127.0.0.1:%d", port), log: &logCount{}}
	n.command = func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), asNode+"="+how+"@"+n.addr)
		return cmd
	}
	return n
}

// TestNode holds that a node can be ended and started again, that its use adds
// up over that, and that what it logs is counted.
func TestNode(t *testing.T) {
	n := newTestNode(t, "good")
	if err := n.dead(); err == nil {
		t.Error("a node that was not started is not dead")
	}
	for i := range 2 {
		if err := n.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		use, err := n.use()
		if err != nil || use.RSS == 0 {
			t.Errorf("start %d: %+v (%v), expected some memory", i, use, err)
		}
		if err := n.dead(); err != nil {
			t.Error(err)
		}
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
	if use, err := n.use(); err != nil || use.CPU <= 0 || use.RSS != 0 {
		t.Errorf("%+v (%v) after two processes, expected their time and no memory", use, err)
	}
	if lines, bytes := n.log.counts(); lines != 4 || bytes != 2*len("listening\nended\n") {
		t.Errorf("%d lines and %d bytes of log, expected those of two processes", lines, bytes)
	}
	if err := n.stop(); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

// TestNodeEnds holds that a node that does not come up is told with its log.
func TestNodeEnds(t *testing.T) {
	err := newTestNode(t, "ends").start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "it ended") || !strings.Contains(err.Error(), "no reason to live") {
		t.Errorf("the error is %v", err)
	}
}

// TestLogCount holds what is kept of a long log.
func TestLogCount(t *testing.T) {
	var l logCount
	if l.last() != "" {
		t.Errorf("an empty log ends with %q", l.last())
	}
	const n = 5000
	for i := range n {
		fmt.Fprintf(&l, "line %d\n", i)
	}
	lines, _ := l.counts()
	tail := strings.Split(l.last(), "\n")
	if lines != n || tail[len(tail)-1] != "line 4999" || !strings.HasPrefix(tail[0], "line ") || len(l.last()) > tailSize {
		t.Errorf("%d lines, and the log ends with %q", lines, l.last())
	}
}

// TestThin holds that thinner samples are as long, and that their CPU is the
// mean.
func TestThin(t *testing.T) {
	got := thin([]report.Sample{{At: 1, CPU: 1, RSS: 10}, {At: 2, CPU: 2, RSS: 20}, {At: 3, CPU: 0, RSS: 30}, {At: 4, CPU: 1, RSS: 40}})
	want := []report.Sample{{At: 2, CPU: 1.5, RSS: 20}, {At: 4, CPU: .5, RSS: 40}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, expected %+v", got, want)
	}
}

// TestSampler holds that samples come by themselves until the end.
func TestSampler(t *testing.T) {
	seen := make(chan report.Sample, 100)
	s := newSampler(func() (report.Use, error) { return useOf(os.Getpid()) }, func(s report.Sample) {
		select {
		case seen <- s:
		default:
		}
	})
	select {
	case got := <-seen:
		if got.RSS == 0 || got.At <= 0 {
			t.Errorf("sample %+v", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("no sample came")
	}
	if samples := s.end(); len(samples) == 0 {
		t.Error("no sample was kept")
	}
}
