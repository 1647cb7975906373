package rest

import (
	"context"
	"net"
	"net/http"
	"sync"

	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/limit"
)

// connections are the connections that are booked for an identity. A connection has one request at
// a time (HTTP/1.1), so none is booked after it was closed.
type connections struct {
	mu      sync.Mutex
	release map[net.Conn]func() // guarded by mu
}

// connectionKey is the key of the connection in the context of a request.
type connectionKey struct{}

// connect is called for each new connection.
func (s *Server) connect(ctx context.Context, c net.Conn) context.Context {
	if s.cfg.Connection != nil {
		ctx = s.cfg.Connection(ctx, c)
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// claim books the connection of a request for the identity of its client, or refuses it. It does so
// once per connection.
func (s *Server) claim(r *http.Request, by authz.Client) error {
	identity := by.Identity()
	c, ok := r.Context().Value(connectionKey{}).(net.Conn)
	if identity == "" || !ok {
		return nil
	}
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	if s.connections.release[c] != nil {
		return nil
	}
	release, err := s.cfg.Limits.Identify(limit.SourceAt(by.Address), identity)
	if err != nil {
		return err
	}
	s.connections.release[c] = release
	return nil
}

// changed is called when the state of a connection changes.
func (s *Server) changed(c net.Conn, to http.ConnState) {
	if s.cfg.ConnState != nil {
		s.cfg.ConnState(c, to)
	}
	if to != http.StateClosed {
		return
	}
	s.connections.mu.Lock()
	release := s.connections.release[c]
	delete(s.connections.release, c)
	s.connections.mu.Unlock()
	if release != nil {
		release()
	}
}
