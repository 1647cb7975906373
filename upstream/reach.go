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

	"xdsrelay/relay/redact"
)

// A control plane that cannot be reached is known before any client wants something of
// it: Watch keeps a connection to each server for as long as the node runs. It is the
// connection that the streams of all keys share, and Watch opens none of its own.

// reach is whether connections to a server can be made. The journal's lock guards it.
type reach struct {
	since time.Time // since when there is none; zero if there is one, or nobody has tried
	err   error     // why
}

// problem says since when and why there is no connection; "" if there is one. It is called
// on a copy, with no lock held.
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

// unreachable notes that there is no connection. While keys want one, their streams fail,
// and the journal logs that instead.
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
		j.sayLocked(slog.LevelWarn, "cannot connect to the "+j.what+"; clients that connect now get no new configuration, retrying with backoff", errorAttr(err))
	}
}

// isUnreachable reports whether the last attempt to connect failed.
func (j *journal) isUnreachable() bool {
	j.mu.Lock()
	defer j.unlock()
	return !j.reach.since.IsZero()
}

// reachable notes that there is a connection.
func (j *journal) reachable(keys int64) {
	j.mu.Lock()
	defer j.unlock()
	if since := j.reach.since; !since.IsZero() && keys == 0 {
		j.sayLocked(slog.LevelInfo, "the "+j.what+" can be reached again", slog.String("down_for", time.Since(since).Round(time.Millisecond).String()))
	}
	j.reach = reach{}
}

// Watch keeps a connection to each server until ctx ends, although no key may want
// anything of it. [ControlPlane.Problems] then names the servers that cannot be reached.
func (c *ControlPlane) Watch(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range c.servers {
		all.Go(func() { s.watch(ctx) })
	}
	all.Wait()
}

// A connection that ends is made again after a pause, which grows while connections end
// soon: a server may close those that have no streams, and nodes of a tier must not all
// return at the same moment.
const (
	shortLife  = time.Minute
	firstPause = time.Second
	lastPause  = 5 * time.Minute
)

func (s *server) watch(ctx context.Context) {
	var (
		ready time.Time // when there was a connection last
		pause time.Duration
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
					pause = min(max(2*pause, firstPause), lastPause)
				} else {
					pause = firstPause
				}
				if goOn, _ := sleepUnless(ctx, spreadOut(pause), s.back()); !goOn {
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

// whyUnreachable is why there is no connection, which gRPC says to streams alone. None is
// opened: without a connection the attempt fails at once.
func (s *server) whyUnreachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.owner.cfg.ConnectTimeout)
	defer cancel()
	_, err := s.open(ctx)
	return err
}

// settleTime is how long an open stream has to last in [ControlPlane.Try]. A server
// refuses a stream at once where it does not know the service, or the caller.
const settleTime = time.Second

// Try connects with each server and opens a stream on it, on which it asks for nothing,
// and calls report with what failed, or nil.
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
		return fmt.Errorf("the server ended the stream %s at once, without an error", s.method)
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

// explain says at which step a connection failed, by the words of grpc-go.
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
