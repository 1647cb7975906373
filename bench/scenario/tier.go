package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"xdsrelay/bench/report"
)

// tier is what nodes that are one tier have in common: a Redis, and the network between them.
type tier struct {
	redis     *node
	stats     *redisStats
	tokenFile string
	peers     []*countedPort // by node
}

// startTier starts a Redis, and what counts between so many nodes. Files are put into dir.
func startTier(ctx context.Context, nodes int, dir string) (*tier, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("a tier needs a Redis: %w (make redis installs it)", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	t := &tier{tokenFile: filepath.Join(dir, "token")}
	if err := os.WriteFile(t.tokenFile, []byte("a-token-that-all-nodes-have\n"), 0o600); err != nil {
		return nil, fmt.Errorf("token of the tier: %w", err)
	}
	t.redis = &node{name: "redis-server", addr: fmt.Sprintf("127.0.0.1:%d", port), log: &logCount{}}
	t.redis.command = func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, program, "--save", "", "--appendonly", "no", "--dir", dir,
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port))
	}
	if err := t.redis.start(ctx); err != nil {
		return nil, err
	}
	if t.stats, err = askRedis(ctx, t.redis.addr); err != nil {
		return nil, errors.Join(err, t.close())
	}
	for range nodes {
		p, err := countPort(ctx)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.peers = append(t.peers, p)
	}
	return t, nil
}

// config is what a node's configuration says of the tier; nodes count from 0.
func (t *tier) config(node int) string {
	p := t.peers[node]
	return fmt.Sprintf("tier:\n  redis: {url: %q}\n  peer: {address: %q, advertise_address: %q, token_file: %q}\n",
		"redis://"+t.redis.addr, p.to, p.listener.Addr(), t.tokenFile)
}

// read is what the tier has used so far.
func (t *tier) read(ctx context.Context) (report.Tier, error) {
	use, err := t.stats.read(ctx)
	for _, p := range t.peers {
		use.Peers += p.bytes.Load()
	}
	return use, err
}

// close ends the Redis and the network. Nodes should have ended before.
func (t *tier) close() error {
	for _, p := range t.peers {
		p.close()
	}
	if t.stats != nil {
		_ = t.stats.conn.Close()
	}
	return t.redis.stop()
}

// redisStats asks a Redis for its counters, on a connection of its own. It is used by one
// goroutine.
type redisStats struct {
	conn net.Conn
	from *bufio.Reader
	// What the questions themselves have added to the counters.
	sent, received int64
}

func askRedis(ctx context.Context, addr string) (*redisStats, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("counters of Redis: %w", err)
	}
	return &redisStats{conn: conn, from: bufio.NewReader(conn)}, nil
}

// read returns the counters without what reading them adds.
func (s *redisStats) read(ctx context.Context) (report.Tier, error) {
	use, err := s.ask(ctx)
	if err != nil {
		return use, fmt.Errorf("counters of Redis: %w", err)
	}
	return use, nil
}

func (s *redisStats) ask(ctx context.Context) (use report.Tier, err error) {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	const question = "INFO all\r\n"
	if _, err := io.WriteString(s.conn, question); err != nil {
		return use, err
	}
	s.sent += int64(len(question)) // it is counted before the answer is made
	head, err := s.from.ReadString('\n')
	if err != nil {
		return use, err
	}
	size, err := strconv.Atoi(strings.Trim(head, "$\r\n"))
	if err != nil || size < 0 {
		return use, fmt.Errorf("the answer begins with %q, expected a size", head)
	}
	text := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(s.from, text); err != nil {
		return use, err
	}
	use, err = parseInfo(string(text))
	use.RedisIn -= s.sent
	use.RedisOut -= s.received
	s.received += int64(len(head) + len(text)) // it is counted after the answer was made
	return use, err
}

var (
	commandLine = regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=([0-9]+)`)
	trafficLine = regexp.MustCompile(`(?m)^total_net_(input|output)_bytes:([0-9]+)`)
)

// parseInfo reads what INFO answers.
func parseInfo(text string) (use report.Tier, err error) {
	for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return use, fmt.Errorf("command %s: %w", m[1], err)
		}
		switch m[1] {
		case "info": // our own
		case "evalsha", "eval", "ping", "subscribe", "ssubscribe", "publish", "spublish":
			use.Calls += n
		default: // nodes call nothing else themselves, but to connect
			use.Scripted += n
		}
	}
	traffic := trafficLine.FindAllStringSubmatch(text, -1)
	if len(traffic) != 2 {
		return use, fmt.Errorf("INFO: %d counters of bytes, expected 2", len(traffic))
	}
	for _, m := range traffic {
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return use, fmt.Errorf("bytes of %s: %w", m[1], err)
		}
		if m[1] == "input" {
			use.RedisIn = n
		} else {
			use.RedisOut = n
		}
	}
	return use, nil
}

// countedPort forwards connections to an address, and counts their bytes both ways.
type countedPort struct {
	// Fixed after construction.
	listener net.Listener
	to       string

	bytes atomic.Int64
	work  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu; nil once it is closed
}

// countPort opens a port of loopback that forwards to another one, at which nobody listens yet.
func countPort(ctx context.Context) (*countedPort, error) {
	to, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a port between nodes: %w", err)
	}
	p := &countedPort{listener: l, to: fmt.Sprintf("127.0.0.1:%d", to), conns: make(map[net.Conn]struct{})}
	p.work.Go(p.accept)
	return p, nil
}

func (p *countedPort) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.work.Go(func() { p.forward(in) })
	}
}

// forward serves a connection until one of its sides ends it.
func (p *countedPort) forward(in net.Conn) {
	defer p.drop(in)
	var d net.Dialer
	out, err := d.DialContext(context.Background(), "tcp", p.to)
	if err != nil {
		return
	}
	defer p.drop(out)
	if !p.keep(in) || !p.keep(out) {
		return
	}
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		p.work.Go(func() {
			_, _ = io.Copy(&countedWriter{way[1], &p.bytes}, way[0])
			done <- struct{}{}
		})
	}
	<-done
}

// keep makes close end the connection; false means that it was closed before.
func (p *countedPort) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns != nil {
		p.conns[c] = struct{}{}
	}
	return p.conns != nil
}

func (p *countedPort) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// close ends all connections, and waits for that.
func (p *countedPort) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.work.Wait()
}

// countedWriter counts what is written.
type countedWriter struct {
	to    io.Writer
	bytes *atomic.Int64
}

func (w *countedWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.bytes.Add(int64(n))
	return n, err
}
