package secure

import (
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// Credentials are those of a gRPC server. They know the connections that they have let
// in. All methods are safe for concurrent use.
type Credentials struct {
	// Fixed after construction.
	server *Server
	failed func(from net.Addr, err error) // nil for none

	mu   sync.Mutex
	open map[*letIn]struct{} // guarded by mu: those whose clients have shown a certificate
}

// letIn is a connection whose client has shown a certificate.
type letIn struct {
	net.Conn

	by    *Credentials
	check func() error // whether it would be let in now
}

// Credentials makes those of a gRPC server. failed, if not nil, is called for each
// handshake that fails.
func (s *Server) Credentials(failed func(from net.Addr, err error)) *Credentials {
	return &Credentials{server: s, failed: failed, open: make(map[*letIn]struct{})}
}

// EndUntrusted closes the connections whose clients would not be let in any more: since
// their certificates have expired, or their authorities were withdrawn. It returns where
// these came from. It is to be called now and then, and costs a look at the files.
func (c *Credentials) EndUntrusted() (from []net.Addr) {
	c.mu.Lock()
	var bad []*letIn
	for conn := range c.open {
		if conn.check() != nil {
			bad = append(bad, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range bad {
		_ = conn.Close() // whatever comes of it, nobody reads from it any more
		from = append(from, conn.RemoteAddr())
	}
	return from
}

// Close ends the connection.
func (c *letIn) Close() error {
	c.by.mu.Lock()
	delete(c.by.open, c)
	c.by.mu.Unlock()
	return c.Conn.Close()
}

// ServerHandshake implements [credentials.TransportCredentials].
func (c *Credentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, check, err := c.server.Handshake(raw)
	switch {
	case err != nil:
		if c.failed != nil {
			c.failed(raw.RemoteAddr(), err)
		}
		return nil, nil, err
	case check == nil:
		return conn, *info, nil
	}
	in := &letIn{Conn: conn, by: c, check: check}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[in] = struct{}{}
	return in, *info, nil
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c *Credentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for a server")
}

// Info implements [credentials.TransportCredentials].
func (c *Credentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements [credentials.TransportCredentials]: the copy knows the same
// connections.
func (c *Credentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements [credentials.TransportCredentials].
func (c *Credentials) OverrideServerName(string) error {
	return errors.New("these credentials are for a server")
}
