package xdsget

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdsclient"
)

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
