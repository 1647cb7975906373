package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/pause"
	"xdsrelay/relay/redact"
)

// The relay detects that a control plane cannot be reached before any client wants something from
// it: Watch keeps a connection to each server for as long as the node runs. The streams of all keys
// share that connection. Watch itself opens no streams.

// reach is whether connections to a server can be made. The lock of the journal guards it.
type reach struct {
	since time.Time // since when there is no connection; zero if there is one, or before the first attempt
	err   error     // why
}

// problem describes since when and why there is no connection; "" if there is one. It is called on
// a copy, with no lock held.
func (r reach) problem() string {
	if r.since.IsZero() {
		return ""
	}
	text := "no connection since " + r.since.UTC().Format(time.RFC3339)
	if r.err != nil {
		text += ": " + redact.Short(r.err.Error(), 512)
	}
	return text
}

// unreachable records that there is no connection. While keys want one, their streams fail, and the
// journal logs that instead.
func (j *journal) unreachable(err error, keys int64) {
	j.mu.Lock()
	defer j.unlock()
	first := j.reach.since.IsZero()
	j.reach.err = err
	if !first {
		return
	}
	j.reach.since = time.Now()
	if keys == 0 {
		j.logChangeLocked(reportedLost, slog.LevelWarn, "cannot connect to the "+j.what+"; new clients get no configuration that is not cached; retrying with backoff", errorAttr(err))
	}
}

// isUnreachable reports whether the last attempt to connect failed.
func (j *journal) isUnreachable() bool {
	j.mu.Lock()
	defer j.unlock()
	return !j.reach.since.IsZero()
}

// reachable records that there is a connection.
func (j *journal) reachable(keys int64) {
	j.mu.Lock()
	defer j.unlock()
	if since := j.reach.since; !since.IsZero() && keys == 0 {
		j.logChangeLocked(reportedBack, slog.LevelInfo, "the "+j.what+" is reachable again", slog.String("down_for", time.Since(since).Round(time.Millisecond).String()))
	}
	j.reach = reach{}
}

// Watch keeps a connection to each server until ctx ends, even if no key wants anything.
// [ControlPlane.Problems] then names the servers that cannot be reached.
func (c *ControlPlane) Watch(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range c.servers {
		all.Go(func() { s.watch(ctx) })
	}
	all.Wait()
}

// After a connection has ended, the relay reconnects after a pause, which grows while connections
// are short: a server may close those without streams, and the nodes of a tier must not all
// reconnect at the same moment.
const (
	shortLife  = time.Minute
	firstPause = time.Second
	lastPause  = 5 * time.Minute
)

func (s *server) watch(ctx context.Context) {
	var (
		ready time.Time // when the connection was last known to be ready
		rest  time.Duration
	)
	for {
		state := s.channel.GetState()
		switch state {
		case connectivity.Shutdown:
			return
		case connectivity.Ready:
			ready = time.Now()
			s.journal.reachable(s.owner.keys.Load())
		case connectivity.TransientFailure:
			if err := s.whyUnreachable(ctx); err != nil && ctx.Err() == nil {
				s.journal.unreachable(err, s.owner.keys.Load())
			}
		case connectivity.Idle:
			if !ready.IsZero() {
				if time.Since(ready) < shortLife {
					rest = min(max(2*rest, firstPause), lastPause)
				} else {
					rest = firstPause
				}
				if goOn, _ := pause.Unless(ctx, jittered(rest), s.back()); !goOn {
					return
				}
			}
			s.channel.Connect()
		}
		if !s.channel.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// whyUnreachable returns why there is no connection, which gRPC reports to streams only. No stream
// is opened: without a connection the attempt fails at once.
func (s *server) whyUnreachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.owner.cfg.ConnectTimeout)
	defer cancel()
	_, err := s.open(ctx)
	return err
}

// settleTime is how long an open stream must last in [ControlPlane.Try]. A server that does not
// support the service, or does not authorize the caller, refuses a stream at once.
const settleTime = time.Second

// Try connects with each server and opens a stream on which it sends nothing. It calls report with
// the error, or nil.
func (c *ControlPlane) Try(ctx context.Context, report func(address string, err error)) {
	for _, s := range c.servers {
		report(s.address, s.try(ctx))
	}
}

func (s *server) try(ctx context.Context) error {
	if err := s.tryConnection(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.open(ctx)
	if err != nil {
		return fmt.Errorf("the stream %s cannot be opened: %w", s.method, err)
	}
	ended := make(chan error, 1)
	go func() {
		m := incoming{delta: s.owner.cfg.Delta}
		ended <- stream.RecvMsg(&m)
	}()
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case err = <-ended:
	case <-timer.C:
	}
	switch state := status.Convert(err); {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the server ended the stream %s immediately without an error", s.method)
	default:
		return fmt.Errorf("the server refused the stream %s: %s: %s", s.method, state.Code(), state.Message())
	}
}

// tryConnection waits for a connection, or for the first attempt to fail.
func (s *server) tryConnection(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.owner.cfg.ConnectTimeout)
	defer cancel()
	for {
		state := s.channel.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure:
			if err := s.whyUnreachable(ctx); err != nil {
				return explain(err)
			}
		case connectivity.Idle:
			s.channel.Connect()
		case connectivity.Shutdown:
			return errClosed
		}
		if !s.channel.WaitForStateChange(ctx, state) {
			return fmt.Errorf("no connection within %s", 2*s.owner.cfg.ConnectTimeout)
		}
	}
}

// explain says at which step a connection failed. It relies on the texts of grpc-go.
func explain(err error) error {
	text := status.Convert(err).Message()
	switch {
	case strings.Contains(text, "authentication handshake failed"):
		return fmt.Errorf("connected, but TLS failed: %s", text)
	case strings.Contains(text, "server preface"):
		return fmt.Errorf("connected, but no HTTP/2 server answers in plaintext; expected gRPC, or a tls section for a server with TLS: %s", text)
	}
	return fmt.Errorf("cannot connect: %s", text)
}
