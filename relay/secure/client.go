package secure

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// Client is the side that dials. All methods are safe for concurrent use.
type Client struct {
	cfg    Config
	source *source
}

// NewClient reads what cfg names. It fails where something cannot be used, with an
// error that names it.
func NewClient(cfg Config, log *slog.Logger) (*Client, error) {
	if cfg.spiffe() && cfg.CAFile == "" && len(cfg.PeerIDs) == 0 {
		return nil, errors.New("SPIFFE bundles without expected ids: any workload of those trust domains could impersonate the server")
	}
	if cfg.ServerName != "" && len(cfg.PeerIDs) > 0 {
		return nil, errors.New("both a server name and SPIFFE ids are set: expected one of them")
	}
	s, err := cfg.source(log)
	if err != nil {
		return nil, err
	}
	return &Client{cfg, s}, nil
}

// Config is for one connection to host, which a configured name takes the place
// of. The files are looked at again for each.
func (c *Client) Config(host string) *tls.Config {
	m := c.source.get()
	t := &tls.Config{MinVersion: c.cfg.minVersion(), CipherSuites: suites(), ServerName: c.nameOf(host), RootCAs: m.trust.roots, Certificates: m.certs}
	if len(m.trust.ids) > 0 {
		// The name is not what counts, and the library would insist on it.
		t.InsecureSkipVerify = true
		t.VerifyConnection = func(s tls.ConnectionState) error {
			return m.trust.verify(s.PeerCertificates, x509.ExtKeyUsageServerAuth, time.Now())
		}
	}
	return t
}

// nameOf is what a server's certificate has to be for.
func (c *Client) nameOf(host string) string { return cmp.Or(c.cfg.ServerName, host) }

// Dial connects to address, as host:port, and shakes hands.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := tls.Dialer{Config: c.Config(hostOf(address))}
	conn, err := d.DialContext(ctx, network, address)
	return conn, explained(err, address)
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
	name := c.client.nameOf(hostOf(authority)) // grpc-go puts it in the place of the one in the configuration
	conn, info, err := credentials.NewTLS(c.client.Config(name)).ClientHandshake(ctx, name, raw)
	if err != nil {
		return nil, nil, explained(err, name)
	}
	return explaining{conn, name}, info, nil
}

func (c *clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for a client")
}

func (c *clientCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (c *clientCredentials) Clone() credentials.TransportCredentials { return c }

func (c *clientCredentials) OverrideServerName(string) error {
	return errors.New("the server name is set by the configuration")
}
