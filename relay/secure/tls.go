package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"google.golang.org/grpc/credentials"
)

// Files are those with certificates, in PEM form.
type Files struct {
	// CertFile is the certificate that is shown, with those between it and the
	// authority, and KeyFile its private key. A client may have neither.
	CertFile, KeyFile string
	// CAFile holds the authorities of the other side. Empty means those of the
	// system for a client; a server then asks for no certificate.
	CAFile string
	// ServerName is what a server's certificate has to be for. Empty means the host
	// that is dialled.
	ServerName string
}

// material is what the files hold.
type material struct {
	certs []tls.Certificate // one or none
	cas   *x509.CertPool    // nil without CAFile
}

func (f Files) watch(log *slog.Logger) (*Watched[material], error) {
	if (f.CertFile == "") != (f.KeyFile == "") {
		return nil, fmt.Errorf("certificate %q and key %q belong together: expected both, or neither", f.CertFile, f.KeyFile)
	}
	paths := slices.DeleteFunc([]string{f.CertFile, f.KeyFile, f.CAFile}, func(p string) bool { return p == "" })
	return Watch(paths, log, func(contents [][]byte) (m material, err error) {
		if f.CertFile != "" {
			cert, err := tls.X509KeyPair(contents[0], contents[1])
			if err != nil {
				return m, fmt.Errorf("certificate %s with key %s: %w", f.CertFile, f.KeyFile, err)
			}
			m.certs = []tls.Certificate{cert}
		}
		if f.CAFile != "" {
			if m.cas, err = authorities(contents[len(contents)-1]); err != nil {
				return m, fmt.Errorf("authorities %s: %w", f.CAFile, err)
			}
		}
		return m, nil
	})
}

// authorities reads certificates, all of which have to be good.
func authorities(content []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, errors.New("no certificate in it, expected at least one in PEM form")
	}
	return pool, nil
}

// Client is the side that dials. All methods are safe for concurrent use.
type Client struct {
	files *Watched[material]
	name  string
}

// NewClient reads the files. It fails where one cannot be used, with an error that
// names it.
func NewClient(f Files, log *slog.Logger) (*Client, error) {
	files, err := f.watch(log)
	if err != nil {
		return nil, err
	}
	return &Client{files, f.ServerName}, nil
}

// Config is for one connection to host, which a configured name takes the place
// of. The files are read again for each.
func (c *Client) Config(host string) *tls.Config {
	m := c.files.Get()
	if c.name != "" {
		host = c.name
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: m.cas, Certificates: m.certs}
}

// Dial connects to address, as host:port, and shakes hands.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := tls.Dialer{Config: c.Config(hostOf(address))}
	return d.DialContext(ctx, network, address)
}

// Credentials are those of a gRPC client.
func (c *Client) Credentials() credentials.TransportCredentials { return &clientCredentials{c} }

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// clientCredentials makes the credentials of grpc-go anew for each handshake.
type clientCredentials struct{ client *Client }

func (c *clientCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.client.Config(hostOf(authority))).ClientHandshake(ctx, authority, raw)
}

func (c *clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a client's")
}

func (c *clientCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (c *clientCredentials) Clone() credentials.TransportCredentials { return c }

func (c *clientCredentials) OverrideServerName(string) error {
	return errors.New("the server's name is that of the configuration")
}

// Server is the side that listens. All methods are safe for concurrent use.
type Server struct{ files *Watched[material] }

// NewServer reads the files, of which the certificate is required. It fails where
// one cannot be used, with an error that names it.
func NewServer(f Files, log *slog.Logger) (*Server, error) {
	if f.CertFile == "" {
		return nil, errors.New("there is no certificate, which a server needs")
	}
	files, err := f.watch(log)
	if err != nil {
		return nil, err
	}
	return &Server{files}, nil
}

// Config is for a listener that speaks one of protos, best first (ALPN). The files
// are read again for each connection. With a CAFile clients have to show a
// certificate of it.
func (s *Server) Config(protos ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protos,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := s.files.Get()
			c := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protos, Certificates: m.certs}
			if m.cas != nil {
				c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, m.cas
				// A ticket would let in again who showed a certificate of an authority
				// that has been withdrawn. Connections are few and long.
				c.SessionTicketsDisabled = true
			}
			return c, nil
		},
	}
}

// Credentials are those of a gRPC server.
func (s *Server) Credentials() credentials.TransportCredentials {
	return credentials.NewTLS(s.Config("h2"))
}
