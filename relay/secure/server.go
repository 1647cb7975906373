package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// Server is the side that listens. All methods are safe for concurrent use.
type Server struct {
	// Fixed after construction: what is trusted may become nothing, which does not
	// mean that nobody is asked any more.
	cfg    Config
	source *source
	asks   tls.ClientAuthType
	http2  *serving // what Handshake uses
}

// NewServer reads what cfg names, and needs a certificate. It fails where something
// cannot be used, with an error that names it.
func NewServer(cfg Config, log *slog.Logger) (*Server, error) {
	if cfg.CertFile == "" && cfg.Workload == nil {
		return nil, errors.New("the server's certificate is missing")
	}
	s, err := cfg.source(log)
	if err != nil {
		return nil, err
	}
	verifies := cfg.CAFile != "" || cfg.spiffe()
	server := &Server{cfg: cfg, source: s}
	server.http2 = &serving{server: server, protos: []string{"h2"}}
	switch {
	case cfg.ClientAuth == ClientAuthNone, cfg.ClientAuth == ClientAuthDefault && !verifies:
		server.asks = tls.NoClientCert
	case !verifies:
		return nil, errors.New("client certificates are requested, but there is no authority to verify them")
	case cfg.ClientAuth == ClientAuthOptional:
		server.asks = tls.VerifyClientCertIfGiven
	default:
		server.asks = tls.RequireAndVerifyClientCert
	}
	return server, nil
}

// VerifiesClients reports whether each client has to show a certificate of an authority that is
// trusted.
func (s *Server) VerifiesClients() bool { return s.asks == tls.RequireAndVerifyClientCert }

// Config is for a listener that speaks one of protos, best first (ALPN). The files
// are looked at again for each connection.
func (s *Server) Config(protos ...string) *tls.Config {
	ready := &serving{server: s, protos: protos}
	return &tls.Config{
		MinVersion: s.cfg.minVersion(),
		NextProtos: protos,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return ready.get().config, nil
		},
	}
}

// Handshake shakes hands with a client that is to speak HTTP/2. Beside what it has
// shown, it returns how to see whether that would be taken again, nil where it has
// shown nothing. The connection is a [*tls.Conn], and not the wrapper of grpc-go's
// credentials, for package ready to know it. It closes raw where it fails.
func (s *Server) Handshake(raw net.Conn) (net.Conn, *credentials.TLSInfo, func() error, error) {
	c := s.http2.get()
	conn := tls.Server(raw, c.config)
	err := conn.HandshakeContext(context.Background()) // the deadline is that of raw
	info := &credentials.TLSInfo{State: conn.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	if err == nil && info.State.NegotiatedProtocol == "" {
		err = errNoProtocol
	}
	if err != nil {
		_ = conn.Close() // the first error is the reason
		return nil, nil, nil, err
	}
	return conn, info, s.recheck(c.of.generation, info.State.VerifiedChains), nil
}

// errNoProtocol is for a client that chooses none: gRPC requires ALPN.
var errNoProtocol = errors.New("the client does not use ALPN, expected it to offer h2")

// recheck makes what [Server.Handshake] returns, for what was taken in a generation.
// Certificates are verified again only when authorities have changed or one of them
// has expired.
func (s *Server) recheck(took uint64, chains [][]*x509.Certificate) func() error {
	if len(chains) == 0 {
		return nil
	}
	chain := chains[0]
	until := chain[0].NotAfter
	for _, c := range chain {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	var good atomic.Uint64 // the generation that took it last
	good.Store(took)
	return func() error {
		now, m := time.Now(), s.source.get()
		if m.generation == good.Load() && now.Before(until) {
			return nil
		}
		if err := m.trust.verify(chain, x509.ExtKeyUsageClientAuth, now); err != nil {
			return err
		}
		good.Store(m.generation)
		return nil
	}
}

// Generation grows whenever certificates of other authorities are taken than before.
// It costs a look at the files.
func (s *Server) Generation() uint64 { return s.source.get().generation }
