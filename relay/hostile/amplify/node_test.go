package amplify

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
)

// childEnv names the environment variable that makes this program a node, and holds its
// [setup] in JSON.
const childEnv = "XDSRELAY_AMPLIFY_NODE"

// setup says which node is measured.
type setup struct {
	Origin string // address
	Delta  bool   // the variant that is spoken with it
	Polls  bool   // it has a port for clients that poll
	// Tier and Redis make it one of a tier: of the other members, as name=address, or of
	// those in a Redis, which keeps its last known good records, too. LastGood is the
	// directory that keeps them otherwise; empty for none.
	Tier            []string
	Redis, LastGood string
	// Files makes the process no node: it only reads files.
	Files bool
}

// The keys of clients that authorize lets in, and of those that it refuses.
const (
	fleetKey    = "fleet"
	strangerKey = "stranger"
)

// config is the shipped one, with all that can be served.
func (s setup) config() *config.Config {
	cfg := config.Default()
	for _, address := range []*string{&cfg.Listener.Address, &cfg.Admin.Address, &cfg.Metrics.Address} {
		*address = "127.0.0.1:0"
	}
	cfg.Node.Name = "node"
	cfg.Downstream.XDSV2, cfg.Downstream.CSDS, cfg.Downstream.Reflection = true, true, true
	cfg.Upstream.Addresses = []string{s.Origin}
	cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max, cfg.Upstream.Backoff.Jitter = 10*time.Millisecond, 20*time.Millisecond, 0
	if s.Delta {
		cfg.Upstream.Variant = config.Delta
	} else {
		cfg.Upstream.Variant = config.SotW
	}
	cfg.Authorization.Rules = []authorize.Rule{{Name: "the fleet", Match: `peer.address != "" && node.cluster != "` + strangerKey + `"`}}
	cfg.Cache.Linger = 0 // what one row has asked for is no matter of the next
	if s.Polls {
		cfg.REST.Address, cfg.REST.PollTimeout, cfg.Cache.Linger = "127.0.0.1:0", 10*time.Millisecond, time.Second
	}
	cfg.Drain.Duration, cfg.Drain.Grace = 0, time.Second
	if len(s.Tier) > 0 || s.Redis != "" {
		cfg.Tier.Peer.Address, cfg.Tier.Lease = "127.0.0.1:0", time.Second
		cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout = s.Redis, 10*time.Second
		cfg.LastKnownGood.Store, cfg.LastKnownGood.WriteDelay = config.StoreRedis, 100*time.Millisecond
	}
	if s.Redis != "" {
		for i := range cfg.Aggregation.Rules {
			cfg.Aggregation.Rules[i].Rollout = "quick"
		}
	}
	if len(s.Tier) > 0 {
		cfg.Tier.Nodes = append([]string{cfg.Node.Name + "=127.0.0.1:1"}, s.Tier...) // where nobody asks for it
	}
	if s.LastGood != "" {
		cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory, cfg.LastKnownGood.WriteDelay = config.StoreDirectory, s.LastGood, 100*time.Millisecond
	}
	return cfg
}

// hello is what a child says when it serves.
type hello struct {
	XDS, REST, Admin, Metrics, Peer string
	PeerMethods                     []string            // of the port for other nodes
	PeerQuestions                   map[string][]string // of one of these methods, with their parameters
}

// cost is what a child says of a time.
type cost struct {
	CPU    time.Duration // of all its threads
	Memory int64         // bytes allocated
	// Waited is how long others have waited together for the lock that was held longest.
	Waited time.Duration
	Lock   string        // the functions that held it
	Most   time.Duration // that is allowed for this holder
}

// node is a node in a process of its own.
type node struct {
	hello

	in  io.WriteCloser
	out *bufio.Reader
	// after is " settled" for a node that nobody waits for: it is measured until it does
	// nothing more.
	after string
}

// startNode starts a node that runs until the test ends.
func startNode(t *testing.T, of setup) *node {
	t.Helper()
	arg, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(arg))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Errorf("the node's process: %v", err)
		}
	})
	n := &node{in: in, out: bufio.NewReader(out)}
	n.read(t, &n.hello)
	return n
}

func (n *node) read(t *testing.T, to any) {
	t.Helper()
	line, err := n.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, to)
	}
	if err != nil {
		t.Fatalf("the node's process says %q: %v", line, err)
	}
}

// measure runs do, and returns what the node spends meanwhile. How is empty, or " settled"
// for a node that does nothing else, or " locks" for one that says how long was waited for
// a lock.
func (n *node) measure(t *testing.T, how string, do func()) (c cost) {
	t.Helper()
	n.tell(t, "begin"+how, &c)
	do()
	n.tell(t, "end"+n.after, &c)
	return c
}

// tell sends the node's process a line, and reads its answer.
func (n *node) tell(t *testing.T, line string, to any) {
	t.Helper()
	if _, err := io.WriteString(n.in, line+"\n"); err != nil {
		t.Fatalf("the node has ended: %v", err)
	}
	n.read(t, to)
}

// serveAsChild is a node that runs until its standard input ends, and measures itself
// between two lines of it.
func serveAsChild() int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var of setup
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &of); err != nil {
		return fail(err)
	}
	out := json.NewEncoder(os.Stdout)
	if of.Files {
		if err := out.Encode(hello{}); err != nil {
			return fail(err)
		}
		answer(out)
		return 0
	}
	n, err := relay.New(of.config(), relay.Options{Version: "amplify", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fail(err)
	}
	if err := out.Encode(hello{n.Addr(), n.RESTAddr(), n.AdminAddr(), n.MetricsAddr(), n.PeerAddr(), n.PeerMethods(), n.PeerQuestions()}); err != nil {
		return fail(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		answer(out)
	}()
	if err := n.Run(ctx); err != nil {
		return fail(err)
	}
	return 0
}

// answer does what the lines of the standard input say, until that ends.
func answer(out *json.Encoder) {
	var began spent
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		c := cost{}
		command, how, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case "begin":
			if how != "" {
				settle()
			}
			began = begin(how == "locks")
		case "end":
			if how != "" {
				settle()
			}
			c = began.end()
		case "files":
			readFiles(how)
		case "client":
			readClient(how)
		}
		if out.Encode(c) != nil {
			return
		}
	}
}

// spent is what the process has spent so far.
type spent struct {
	cpu    time.Duration
	memory int64
	locks  *lockWatch // nil where nobody asks for that
}

// settle waits until the process does nothing more of what was measured last.
func settle() {
	const window, quiet, most = 3 * time.Millisecond, 300 * time.Microsecond, time.Second
	for began := time.Now(); time.Since(began) < most; {
		before := cpu()
		<-time.After(window)
		if cpu()-before < quiet {
			return
		}
	}
}

// begin empties all pools and stops the collector, so that what is allocated from now on
// stays.
func begin(locks bool) spent {
	runtime.GC()
	runtime.GC() // sync.Pool keeps a collection long
	debug.SetGCPercent(-1)
	s := spent{}
	if locks {
		s.locks = watchLocks()
	}
	s.memory, s.cpu = allocated(), cpu()
	return s
}

func (s spent) end() cost {
	c := cost{CPU: cpu() - s.cpu, Memory: allocated() - s.memory}
	if s.locks != nil {
		s.locks.stop(&c)
	}
	debug.SetGCPercent(100)
	return c
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func allocated() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
