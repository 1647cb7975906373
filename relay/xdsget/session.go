package xdsget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
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

// stream is one stream of a session.
type stream struct {
	session *Session          // fixed
	service string            // fixed; the type of a stream per type
	client  *xdsclient.Client // fixed when ready is closed
	ready   chan struct{}     // fixed

	// Owned by the goroutine of the client.
	answered bool              // the server has sent a response on this stream
	rejected string            // why the response is rejected
	unusable map[string]string // why single resources of the response are rejected
	refs     map[string][]Ref  // the references in the resources of the response
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

// variantOf is the variant of the stream for a type.
func (s *Session) variantOf(url string) xdsclient.Variant {
	v := xdsclient.Variant{Delta: s.cfg.Delta}
	if s.cfg.PerType {
		v.Service = url
	}
	return v
}

// streamOf returns the stream for a type, which it opens if needed. s.followMu is held.
func (s *Session) streamOf(url string) (*stream, error) {
	v := s.variantOf(url)
	s.mu.Lock()
	st := s.streams[v.Service]
	s.mu.Unlock()
	if st != nil {
		return st, nil
	}
	if v.Method() == "" {
		return nil, fmt.Errorf("%s has no service of its own for this variant of xDS: use an aggregated stream", xdsclient.ShortType(url))
	}
	st = &stream{session: s, service: v.Service, ready: make(chan struct{})}
	client, err := xdsclient.Start(st.config(v))
	if err != nil {
		return nil, err
	}
	st.client = client
	close(st.ready)
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.streams[v.Service] = st
	}
	s.mu.Unlock()
	if closed {
		client.Close()
		return nil, context.Canceled
	}
	return st, nil
}

// config is that of a stream's client.
func (st *stream) config(v xdsclient.Variant) xdsclient.Config {
	s := st.session
	options := []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 10 * time.Second,
		}),
	}
	if s.cfg.TLS != nil {
		options = append(options, grpc.WithTransportCredentials(s.cfg.TLS.Credentials()))
	}
	return xdsclient.Config{
		Variant: v,
		Node:    s.cfg.Node,
		Next:    func() string { return s.cfg.Addr }, // so that attempts fail, rather than wait
		Backoff: 250 * time.Millisecond, LongestBackoff: 5 * time.Second,
		DialOptions: append(options, s.cfg.DialOptions...),
		Failed:      func(err error) { st.ended(err) },
		Watch: func(e xdsclient.Event) {
			switch {
			case e.Frame != nil:
				st.answered, st.rejected, st.unusable, st.refs = true, "", make(map[string]string), make(map[string][]Ref)
			case !e.Ended:
				st.answered = false
				s.notify(Event{Opened: true})
			case !e.Own:
				st.ended(e.Err)
			}
		},
		Nack: func(f *xdsclient.Frame) string {
			st.rejected = s.cfg.Nack[f.TypeURL]
			return st.rejected
		},
		Reject: func(_ string, r xdsclient.Resource) string { return st.look(r.Name, r.Body) },
		BeforeAck: func(_ context.Context, f *xdsclient.Frame) {
			<-st.ready
			st.take(f)
		},
		BeforeRead: func(context.Context) {
			<-st.ready
			s.follow() // the response before it is answered then
		},
	}
}

// look decodes a resource, and returns why it is rejected; empty if it is not.
func (st *stream) look(name string, body *anypb.Any) string {
	refs, err := decode(body, st.session.cfg.PerType)
	if err != nil {
		st.unusable[name] = err.Error()
		return err.Error()
	}
	st.refs[name] = refs
	return ""
}

// take notes the content of a response that was judged.
func (st *stream) take(f *xdsclient.Frame) {
	s := st.session
	has := st.contentAfter(f)
	s.mu.Lock()
	t := s.typeLocked(f.TypeURL)
	u, moved := t.apply(f, has, st)
	s.dirty = s.dirty || moved
	s.latest, s.last = time.Now(), nil
	s.signalLocked()
	s.mu.Unlock()
	s.notify(Event{Update: u})
}

// contentAfter returns the names that a response may have changed, with the resources that the client
// has after it; nil for none.
func (st *stream) contentAfter(f *xdsclient.Frame) map[string]*xdsclient.Held {
	names := make(map[string]*xdsclient.Held, len(f.Resources)+len(f.Removed))
	add := func(name string) {
		name = resource.Canonical(name)
		if h, ok := st.client.HeldOf(f.TypeURL, name); ok {
			names[name] = &h
		} else {
			names[name] = nil
		}
	}
	for _, r := range f.Resources {
		add(r.Name)
	}
	for _, name := range f.Removed {
		add(name)
	}
	return names
}

// ended notes that a stream, or an attempt at one, is over.
func (st *stream) ended(err error) {
	s := st.session
	e := explain(err, s.cfg.Addr, s.cfg.TLS != nil)
	if s.cfg.PerType {
		e.Type = st.service
	}
	s.mu.Lock()
	if e.Kind == NeedsTLS && s.last != nil && s.last.Kind == NeedsTLS {
		e.Final = true // once, the server may only have restarted
	}
	s.last = e
	if e.Final && !st.answered && s.fatal == nil {
		s.fatal = e
	}
	s.signalLocked()
	s.mu.Unlock()
	s.notify(Event{Err: e})
}

func (s *Session) notify(e Event) {
	if s.cfg.Notify != nil {
		e.At = time.Now()
		s.cfg.Notify(e)
	}
}

// follow subscribes to what the resources refer to, and drops what they no longer refer to.
func (s *Session) follow() {
	s.followMu.Lock()
	defer s.followMu.Unlock()
	for {
		s.mu.Lock()
		if !s.dirty {
			s.mu.Unlock()
			return
		}
		changes := s.referencesLocked()
		s.signalLocked()
		s.mu.Unlock()
		for _, c := range changes {
			s.subscribe(c)
		}
	}
}

// change is a change of the followed names of a type.
type change struct {
	url       string
	add, drop []string
	gone      *Update // the resources that were dropped; nil for none
}

// referencesLocked computes the names to follow. s.mu is held.
func (s *Session) referencesLocked() (changes []change) {
	s.dirty = false
	if !s.cfg.References {
		return nil
	}
	wanted := make(map[string]map[string]bool)
	for _, t := range s.types {
		for _, e := range t.held {
			for _, r := range e.refs {
				if wanted[r.TypeURL] == nil {
					wanted[r.TypeURL] = make(map[string]bool)
				}
				wanted[r.TypeURL][r.Name] = true
			}
		}
	}
	for url := range wanted {
		s.typeLocked(url)
	}
	for _, url := range xdsclient.InPushOrder(keys(s.types)) {
		c, moved := s.types[url].followOnly(wanted[url])
		s.dirty = s.dirty || moved
		if len(c.add)+len(c.drop) > 0 {
			changes = append(changes, c)
		}
	}
	return changes
}

// subscribe sends a change to the server. s.followMu is held.
func (s *Session) subscribe(c change) {
	st, err := s.streamOf(c.url)
	if err != nil {
		s.mu.Lock()
		s.typeLocked(c.url).problem = err.Error()
		s.signalLocked()
		s.mu.Unlock()
		return
	}
	if len(c.add) > 0 {
		st.client.Subscribe(c.url, c.add...)
	}
	if len(c.drop) > 0 {
		st.client.Unsubscribe(c.url, c.drop...)
	}
	if c.gone != nil {
		s.notify(Event{Update: c.gone})
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
