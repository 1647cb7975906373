package xdsget

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"

	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdsclient"
)

// Config says what a [Session] asks for. It is not changed after [Start] was called.
type Config struct {
	// Addr is the server, "host:port" or "unix:path". Required.
	Addr string
	// Delta selects the delta variant; otherwise state of the world.
	Delta bool
	// PerType opens a stream per type, on the type's own service; otherwise one aggregated stream.
	PerType bool
	// Node is the Node of the client. Required.
	Node *corev3.Node
	// Want is what the client asks for, at least one resource or type.
	Want []Ref
	// References makes the client also get the resources that its resources refer to.
	References bool
	// Nack has the types whose responses are rejected, by type URL, each with the reason.
	Nack map[string]string
	// TLS is for the connection; nil means plaintext.
	TLS *TLS
	// DialOptions are added to those of the session.
	DialOptions []grpc.DialOption
	// Notify, unless nil, is called with all that happens, in order for each stream. It is called by
	// several goroutines at once if there are several streams, with no locks held.
	Notify func(Event)
}

// TLS is the TLS of connections to a server.
type TLS = secure.Client

// NewTLS reads the files for TLS: the CA certificates that verify the server, or those of the system,
// and the client certificate with its key, if any. serverName replaces the host of the address.
func NewTLS(caFile, certFile, keyFile, serverName string) (*TLS, error) {
	return secure.NewClient(secure.Config{
		CAFile: caFile, CertFile: certFile, KeyFile: keyFile, ServerName: serverName,
		MinVersion: minTLS, // control planes may support nothing newer
	}, slog.New(slog.DiscardHandler))
}

// Event is something that happened: a stream was opened, a stream or an attempt at one ended, or a
// response was accepted or rejected.
type Event struct {
	At     time.Time
	Opened bool
	Err    *Error  // why a stream, or an attempt at one, ended
	Update *Update // the response
}

// quietTime is how long a server must be quiet before all resources of a type, or of a glob, are
// taken to have arrived: they may be in several responses.
const quietTime = 250 * time.Millisecond

// Session is a client of a server. All methods may be called from any goroutine, also by
// [Config.Notify], but for Close.
type Session struct {
	cfg Config // fixed

	// followMu is held while subscriptions change, so that they change in order. It is locked before
	// mu and before any lock of a stream's client.
	followMu sync.Mutex

	mu      sync.Mutex // guards all below
	streams map[string]*stream
	types   map[string]*subscription
	dirty   bool      // references may have changed
	fatal   *Error    // why it makes no sense to continue
	last    *Error    // why the last stream, or attempt at one, ended; nil after an answer
	latest  time.Time // when the last response arrived
	closed  bool
	changed chan struct{} // closed and replaced with every change
}

// Start starts a session, which connects at once. It returns an error if the configuration cannot
// work; an unreachable server is none.
func Start(cfg Config) (*Session, error) {
	if len(cfg.Want) == 0 {
		return nil, errors.New("expected at least one type or resource to subscribe to")
	}
	s := &Session{cfg: cfg, streams: make(map[string]*stream), types: make(map[string]*subscription), changed: make(chan struct{})}
	if err := s.subscribeAll(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// subscribeAll subscribes to what the user asked for.
func (s *Session) subscribeAll() error {
	s.followMu.Lock()
	defer s.followMu.Unlock()
	s.mu.Lock()
	for _, w := range s.cfg.Want {
		s.typeLocked(w.TypeURL).ask(w)
	}
	asked := make(map[string][]string)
	for url, t := range s.types {
		asked[url] = t.names()
	}
	s.mu.Unlock()
	for _, url := range xdsclient.InPushOrder(keys(asked)) {
		st, err := s.streamOf(url)
		if err != nil {
			return err
		}
		st.client.Subscribe(url, asked[url]...)
	}
	return nil
}

// Close ends the session and waits until nothing of it runs any more. Its state can still be read.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	var all sync.WaitGroup
	for _, st := range s.streams {
		all.Go(st.client.Close) // at once: the goroutine of one may wait for another
	}
	s.mu.Unlock()
	all.Wait()
}

// Changed returns a channel that is closed with the next change of the session's state.
func (s *Session) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// signalLocked announces a change. s.mu is held.
func (s *Session) signalLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// typeLocked returns the subscription of a type, which it adds if needed. s.mu is held.
func (s *Session) typeLocked(url string) *subscription {
	t := s.types[url]
	if t == nil {
		t = newSubscription(url)
		s.types[url] = t
	}
	return t
}

func (s *Session) notify(e Event) {
	if s.cfg.Notify != nil {
		e.At = time.Now()
		s.cfg.Notify(e)
	}
}

// Wait returns when all that was asked for and followed has arrived, or cannot arrive: the server
// reported that it does not exist, or a response was rejected. It returns an [*Error] if it makes no
// sense to wait any longer, and the cause if ctx ends.
func (s *Session) Wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		changed, wait := s.changed, s.waitLocked()
		fatal := s.fatal
		s.mu.Unlock()
		switch {
		case fatal != nil:
			return fatal
		case wait == 0:
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// Watch returns when ctx ends, with its cause, or with an [*Error] when it makes no sense to continue.
func (s *Session) Watch(ctx context.Context) error {
	for {
		s.mu.Lock()
		changed, fatal := s.changed, s.fatal
		s.mu.Unlock()
		if fatal != nil {
			return fatal
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Err returns why the last stream, or attempt at one, ended, as an [*Error]; nil while the server
// answers.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fatal != nil:
		return s.fatal
	case s.last != nil:
		return s.last
	}
	return nil
}

// waitLocked returns how long to wait at most until something may change: 0 if nothing is missing.
// s.mu is held.
func (s *Session) waitLocked() time.Duration {
	if s.dirty {
		return time.Hour
	}
	several := false
	for _, t := range s.types {
		if t.isWaiting() {
			return time.Hour
		}
		several = several || t.several()
	}
	if !several {
		return 0
	}
	return max(0, quietTime-time.Since(s.latest))
}

func keys[V any](m map[string]V) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
