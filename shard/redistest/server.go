// Package redistest starts real Redis servers on free ports of the loopback interface, for tests.
// It can pause, kill and empty them, and make them read-only.
//
//	servers      server.go, process.go, orphan_*.go, port.go, tail.go (their output)
//	topologies   cluster.go, sentinel.go
//	stand-ins    package standin
package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"xdsrelay/relay/xdstest"
)

// patience is how long a server may take for an operation that normally takes moments, on a busy
// machine.
const patience = time.Minute

// Config is what differs from a default server.
type Config struct {
	// Password is required from clients. Empty means none.
	Password string
	// CertFile, KeyFile and CAFile enable TLS with client certificates of that authority. Empty
	// means no TLS.
	CertFile, KeyFile, CAFile string
	// Args are further lines of its configuration, as "--name", "value".
	Args []string
	// Real is for tests that need a real redis-server; a stand-in is not used.
	Real bool
}

// Server is a redis-server that stores nothing on disk. It ends with the test. Its methods are safe
// for concurrent use.
type Server struct {
	// Fixed after construction.
	t     xdstest.TB
	name  string
	cfg   Config
	port  *heldPort
	tls   *heldPort // nil without TLS
	dir   string
	file  string // its configuration file, for servers that write to it
	admin *redis.Client

	mu sync.Mutex
	// Guarded by mu.
	cmd  *exec.Cmd // nil while none runs
	done chan struct{}
	twin *double // instead of a process; see EnvStandIn
	out  *tail
}

// Start starts a server and waits until it answers.
func Start(t xdstest.TB, cfg Config) *Server {
	t.Helper()
	s := newServer(t, realServer, cfg)
	s.Start()
	return s
}

// realServer is the program.
const realServer = "redis-server"

// newServer prepares a server with a port and a directory of its own.
func newServer(t xdstest.TB, name string, cfg Config) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatalf("this test needs a real Redis: %v; .ci/redis installs it on Debian", err)
	}
	port, err := holdPort()
	if err != nil {
		t.Fatalf("redis: %v", err)
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		t.Fatalf("redis: %v", err)
	}
	s := &Server{t: t, name: name, cfg: cfg, port: port, dir: dir, out: &tail{}}
	s.admin = redis.NewClient(&redis.Options{
		Addr: s.Addr(), Password: cfg.Password, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 2,
		DialTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, ContextTimeoutEnabled: true,
	})
	if cfg.CertFile != "" {
		if s.tls, err = holdPort(); err != nil {
			t.Fatalf("redis: %v", err)
		}
	}
	t.Cleanup(func() {
		s.Kill()
		_ = s.admin.Close()
		if s.tls != nil {
			s.tls.release()
		}
		port.release()
		_ = os.RemoveAll(dir)
	})
	return s
}

// Addr returns its address, as host:port. It stays the same after a restart.
func (s *Server) Addr() string { return s.port.addr() }

// URL returns its address as redis://, with the password; with TLS as rediss://, with another port.
func (s *Server) URL() string {
	scheme, user, addr := "redis", "", s.Addr()
	if s.tls != nil {
		scheme, addr = "rediss", s.tls.addr()
	}
	if s.cfg.Password != "" {
		user = ":" + s.cfg.Password + "@"
	}
	return fmt.Sprintf("%s://%s%s", scheme, user, addr)
}

// Do runs a command for which there is no method. It retries after a lost connection, since
// sentinels close connections when they make a replica the master.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		v, err := s.admin.Do(ctx, args...).Result()
		var answer redis.Error
		switch {
		case err == nil:
			return v
		case errors.As(err, &answer), ctx.Err() != nil:
			s.t.Fatalf("%s %s: %v: %v\n%s", s.name, s.Addr(), args, err, s.out)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Start starts it again, empty, after Kill.
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil || s.twin != nil {
		s.t.Fatalf("%s %s runs already", s.name, s.Addr())
	}
	if s.name == realServer && s.cfg.standsIn() {
		var err error
		if s.twin, err = startDouble(s.Addr()); err != nil {
			s.t.Fatalf("a stand-in for Redis: %v", err)
		}
		return
	}
	args := []string{"--save", "", "--appendonly", "no", "--dir", s.dir}
	if s.cfg.Password != "" {
		args = append(args, "--requirepass", s.cfg.Password, "--masterauth", s.cfg.Password)
	}
	if s.tls != nil {
		args = append(args, "--tls-port", strconv.Itoa(s.tls.port), "--tls-cert-file", s.cfg.CertFile, "--tls-key-file", s.cfg.KeyFile, "--tls-ca-cert-file", s.cfg.CAFile)
	}
	if s.file != "" {
		args = []string{s.file, "--sentinel"}
	}
	args = append(args, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port.port))
	args = append(args, s.cfg.Args...)
	cmd := exec.CommandContext(context.Background(), "redis-server", args...)
	cmd.Stdout, cmd.Stderr = s.out, s.out
	dieWithUs(cmd)
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	s.cmd, s.done = cmd, done
	s.awaitLocked()
}

// awaitLocked waits until it answers. mu must be held.
func (s *Server) awaitLocked() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, patience/6)
		err := s.admin.Ping(once).Err()
		cancel()
		if err == nil {
			return
		}
		select {
		case <-s.done:
			s.t.Fatalf("%s %s ended at its start:\n%s", s.name, s.Addr(), s.out)
		case <-ctx.Done():
			s.t.Fatalf("%s %s does not answer: %v\n%s", s.name, s.Addr(), err, s.out)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Kill ends it at once, as by kill -9. Its port then refuses connections.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.twin != nil {
		s.twin.Close()
		s.twin = nil
	}
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// Restart kills it and starts it, empty.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.Start()
}

// Pause stops the process: it accepts connections, and answers nothing.
func (s *Server) Pause() { s.t.Helper(); s.signal(syscall.SIGSTOP) }

// Resume continues the process.
func (s *Server) Resume() { s.t.Helper(); s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.twin != nil {
		s.twin.Pause(sig == syscall.SIGSTOP)
		return
	}
	if s.cmd == nil {
		s.t.Fatalf("%s %s does not run", s.name, s.Addr())
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("%s %s: %v: %v", s.name, s.Addr(), sig, err)
	}
}

// Flush empties it.
func (s *Server) Flush() { s.t.Helper(); s.Do("FLUSHALL") }

// ReadOnly makes it reject all writes, as a replica without its master does, or ends that.
func (s *Server) ReadOnly(on bool) {
	s.t.Helper()
	s.mu.Lock()
	twin := s.twin
	s.mu.Unlock()
	if twin != nil {
		twin.ReadOnly(on)
		return
	}
	if on {
		s.Do("REPLICAOF", "127.0.0.1", "1")
	} else {
		s.Do("REPLICAOF", "NO", "ONE")
	}
}
